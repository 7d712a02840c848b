/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the shared libgpudirect opens on first need: library.h says how. A library of which one
 * function is missing here is linked, and loaded at every start: the test tools-lean notices that.
 * Other libraries that one of these links are opened with it. Compiled without link-time
 * optimization, which does not see what assembler defines. */
#include "base/base.h"

#ifdef GPUD_STUB_JUMP /* else they are linked */
/* clang-format off */

#ifdef GPUD_WITH_AVAHI
#define AVAHI(F)                                                                              \
    F(avahi_alternative_service_name) F(avahi_client_free) F(avahi_client_get_host_name)      \
    F(avahi_client_get_state) F(avahi_client_new) F(avahi_entry_group_add_service_strlst)     \
    F(avahi_entry_group_commit) F(avahi_entry_group_free) F(avahi_entry_group_new)            \
    F(avahi_entry_group_reset) F(avahi_entry_group_update_service_txt_strlst) F(avahi_free)   \
    F(avahi_service_browser_free) F(avahi_service_browser_new) F(avahi_service_resolver_free) \
    F(avahi_service_resolver_new) F(avahi_simple_poll_free) F(avahi_simple_poll_get)          \
    F(avahi_simple_poll_iterate) F(avahi_simple_poll_new) F(avahi_strerror)                   \
    F(avahi_string_list_add) F(avahi_string_list_equal) F(avahi_string_list_free)             \
    F(avahi_string_list_get_next) F(avahi_string_list_get_size) F(avahi_string_list_get_text) \
    F(avahi_string_list_reverse)
GPUD_STUBS(avahi, AVAHI, "libavahi-client.so.3", "libavahi-client3")
#endif

#define HWLOC(F)                                                                   \
    F(hwloc_bitmap_first) F(hwloc_bitmap_list_snprintf) F(hwloc_bitmap_weight)     \
    F(hwloc_get_nbobjs_by_depth) F(hwloc_get_obj_by_depth) F(hwloc_get_type_depth) \
    F(hwloc_topology_destroy) F(hwloc_topology_init) F(hwloc_topology_load)        \
    F(hwloc_topology_set_components) F(hwloc_topology_set_io_types_filter)
GPUD_STUBS(hwloc, HWLOC, "libhwloc.so.15", "libhwloc15")

#if GPUD_WITH_OPENCL
#define OPENCL(F)                                                                                \
    F(clCreateBuffer) F(clCreateBufferWithProperties) F(clCreateCommandQueue) F(clCreateContext) \
    F(clEnqueueBarrierWithWaitList) F(clEnqueueCopyBuffer) F(clEnqueueCopyBufferRect)            \
    F(clEnqueueFillBuffer) F(clEnqueueMapBuffer) F(clEnqueueMarkerWithWaitList)                  \
    F(clEnqueueMigrateMemObjects) F(clEnqueueReadBuffer) F(clEnqueueReadBufferRect)              \
    F(clEnqueueUnmapMemObject) F(clEnqueueWriteBuffer) F(clEnqueueWriteBufferRect) F(clFlush)    \
    F(clGetCommandQueueInfo) F(clGetContextInfo) F(clGetDeviceIDs) F(clGetDeviceInfo)            \
    F(clGetEventInfo) F(clGetExtensionFunctionAddressForPlatform) F(clGetMemObjectInfo)          \
    F(clGetPlatformIDs) F(clGetPlatformInfo) F(clReleaseCommandQueue) F(clReleaseContext)        \
    F(clReleaseEvent) F(clReleaseMemObject) F(clRetainContext) F(clRetainEvent)                  \
    F(clRetainMemObject) F(clSetEventCallback)
GPUD_STUBS(opencl, OPENCL, "libOpenCL.so.1", "ocl-icd-libopencl1")
#endif

#define OPENSSL(F)                                                                                \
    F(BIO_clear_flags) F(BIO_free) F(BIO_get_data) F(BIO_meth_new) F(BIO_meth_set_ctrl)           \
    F(BIO_meth_set_read) F(BIO_meth_set_write) F(BIO_new) F(BIO_set_data) F(BIO_set_flags)        \
    F(BIO_set_init) F(CRYPTO_memcmp) F(ERR_clear_error) F(ERR_peek_error)                         \
    F(ERR_reason_error_string) F(EVP_MD_get_type) F(EVP_sha256) F(HMAC) F(OPENSSL_init_crypto)    \
    F(OPENSSL_init_ssl) F(SSL_CIPHER_find) F(SSL_CIPHER_get_name) F(SSL_CTX_ctrl) F(SSL_CTX_free) \
    F(SSL_CTX_load_verify_locations) F(SSL_CTX_new) F(SSL_CTX_set_alpn_select_cb)                 \
    F(SSL_CTX_set_ciphersuites) F(SSL_CTX_set_default_passwd_cb)                                  \
    F(SSL_CTX_set_default_passwd_cb_userdata) F(SSL_CTX_set_num_tickets) F(SSL_CTX_set_options)   \
    F(SSL_CTX_set_psk_find_session_callback) F(SSL_CTX_set_psk_use_session_callback)              \
    F(SSL_CTX_set_verify) F(SSL_CTX_use_PrivateKey_file) F(SSL_CTX_use_certificate_chain_file)    \
    F(SSL_SESSION_free) F(SSL_SESSION_new) F(SSL_SESSION_set1_master_key)                         \
    F(SSL_SESSION_set_cipher) F(SSL_SESSION_set_protocol_version) F(SSL_ctrl) F(SSL_do_handshake) \
    F(SSL_free) F(SSL_get0_alpn_selected) F(SSL_get0_param) F(SSL_get_current_cipher)             \
    F(SSL_get_error) F(SSL_get_ex_data) F(SSL_get_verify_result) F(SSL_key_update) F(SSL_new)     \
    F(SSL_read_ex) F(SSL_set1_host) F(SSL_set_accept_state) F(SSL_set_alpn_protos) F(SSL_set_bio) \
    F(SSL_set_connect_state) F(SSL_set_ex_data) F(SSL_shutdown) F(SSL_write_ex)                   \
    F(TLS_client_method) F(TLS_server_method) F(X509_VERIFY_PARAM_set1_ip_asc)                    \
    F(X509_verify_cert_error_string)
GPUD_STUBS(openssl, OPENSSL, "libssl.so.3", "libssl3")

#ifdef GPUD_WITH_RDMA
#define RDMA(F)                                                                                    \
    F(ibv_ack_cq_events) F(ibv_alloc_pd) F(ibv_close_device) F(ibv_create_comp_channel)            \
    F(ibv_create_cq) F(ibv_dealloc_pd) F(ibv_dereg_mr) F(ibv_destroy_comp_channel)                 \
    F(ibv_destroy_cq) F(ibv_free_device_list) F(ibv_get_cq_event) F(ibv_get_device_list)           \
    F(ibv_get_device_name) F(ibv_modify_qp) F(ibv_open_device) F(ibv_query_device)                 \
    F(ibv_query_port) F(ibv_reg_dmabuf_mr) F(ibv_reg_mr) F(ibv_reg_mr_iova2) F(ibv_wc_status_str)  \
    F(rdma_accept) F(rdma_ack_cm_event) F(rdma_bind_addr) F(rdma_connect)                          \
    F(rdma_create_event_channel) F(rdma_create_id) F(rdma_create_qp) F(rdma_destroy_event_channel) \
    F(rdma_destroy_id) F(rdma_destroy_qp) F(rdma_disconnect) F(rdma_get_cm_event)                  \
    F(rdma_get_src_port) F(rdma_listen) F(rdma_migrate_id) F(rdma_reject) F(rdma_resolve_addr)     \
    F(rdma_resolve_route) F(rdma_set_option)
GPUD_STUBS(rdma, RDMA, "librdmacm.so.1", "librdmacm1")
#endif

/* clang-format on */
#endif
