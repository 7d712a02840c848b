# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Completion for bash of all tools. Their options are those that --help prints.

# The words that may stand behind an option, or as an argument if the option is empty; "-f" or "-d" for files or folders.
_gpudirect_words()
{
    case $1/$2 in
    */--from | */--to | */--device) echo host auto cuda:0 cuda:1 hip:0 hip:1 opencl:0 opencl:1 vulkan:0 ;;
    */--route) echo map peer directgma migrate staged-push staged rdma-dmabuf rdma-peermem rdma-host ;;
    */--format) echo UYVY v210 NV12 I420 P010_10LE RGBA BGRx ;;
    */--slow-receiver) echo block drop-newest drop-oldest ;;
    */--source) echo lent foreign ;;
    */--verify) echo marks full ;;
    */--media) echo picture tensor ;;
    */--access) echo user all group: ;;
    */--directory) echo -d ;;
    */--expect | */--psk-file | */--tls-certificate | */--tls-key | */--tls-ca | */--token-file | */--plot | */--png) echo -f ;;
    gpudirect-bench/ | gpudirect-info/) ;;
    */ | gpudirect-info/--channels) gpudirect-info --channels --json 2>/dev/null | sed -n 's/^ *"address" : "\(.*\)",\{0,1\}$/\1/p' ;;
    esac
}

_gpudirect()
{
    local line=${COMP_LINE:0:COMP_POINT} tool=${1##*/} current option= value words names before
    current=${line##*[[:space:]]}
    before=${line%"$current"}
    before=${before%"${before##*[![:space:]]}"}
    before=${before##*[[:space:]]}
    names=$("$1" --help 2>/dev/null | sed -n 's/^  \(-h, \)\{0,1\}\(--[a-z-]*=\{0,1\}\).*/\2/p')
    value=$current
    case $current in
    --*=*)
        option=${current%%=*}
        value=${current#*=}
        ;;
    *)
        case $'\n'$names$'\n' in
        *$'\n'"$before="$'\n'*) option=$before ;;
        esac
        [ "$before" != --channels ] || [ "$tool" = gpudirect-bench ] || option=$before
        ;;
    esac
    if [[ $option != "$before" && $current == -* && $current != *=* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$names" -- "$current")
        [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
        return
    fi
    words=$(_gpudirect_words "$tool" "$option")
    case $words in
    -f | -d)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$words" -- "$value")
        ;;
    *)
        # A list such as cuda:0,cuda:1 goes on behind its last comma.
        local list=
        [[ $value != *,* ]] || list=${value%,*},
        mapfile -t COMPREPLY < <(compgen -P "$list" -W "$words" -- "${value#"$list"}")
        # Readline replaces only what stands behind the last colon.
        [[ $value != *:* || $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"${value%:*}:"}")
        ;;
    esac
}

complete -F _gpudirect gpudirect-info gpudirect-bench gpudirect-monitor gpudirect-view
