/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A libnvcuvid.so.1 that decodes nothing. GStreamer's nvcodec plugin offers cudaupload and
 * cudadownload only if it finds the decoder's library beside the driver's; with this one it finds
 * no codec, and offers just those. */

#define NOT_SUPPORTED 801

#define FUNCTIONS(FUNCTION)           \
    FUNCTION(cuvidCreateDecoder)      \
    FUNCTION(cuvidCreateVideoParser)  \
    FUNCTION(cuvidCtxLock)            \
    FUNCTION(cuvidCtxLockCreate)      \
    FUNCTION(cuvidCtxLockDestroy)     \
    FUNCTION(cuvidCtxUnlock)          \
    FUNCTION(cuvidDecodePicture)      \
    FUNCTION(cuvidDestroyDecoder)     \
    FUNCTION(cuvidDestroyVideoParser) \
    FUNCTION(cuvidGetDecoderCaps)     \
    FUNCTION(cuvidMapVideoFrame64)    \
    FUNCTION(cuvidParseVideoData)     \
    FUNCTION(cuvidUnmapVideoFrame64)

#define DEFINE(symbol)                                       \
    __attribute__((visibility("default"))) int symbol(void); \
    int symbol(void)                                         \
    {                                                        \
        return NOT_SUPPORTED;                                \
    }
FUNCTIONS(DEFINE)
