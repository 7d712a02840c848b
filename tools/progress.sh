# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# How far something long is, for scripts that include this file; progress.py does the same in Python. On a terminal it
# is a line that is rewritten, in a log a line for each tenth, and nothing with GPUDIRECT_PROGRESS=off.
#
#     . tools/progress.sh
#     progress_begin build            what it is; how long it took the last time stands in the user's cache
#     progress_show 42 "built 21/50"  percent, and what is shown of it
#     progress_end                    when it went well: it is remembered how long it took
#
# The time that is left is estimated from the last run, or, without one, from this one.

progress_begin() {
    progress_file=${XDG_CACHE_HOME:-${HOME-}/.cache}/gpudirect/$1.seconds
    progress_last=$(cat "$progress_file" 2>/dev/null) || progress_last=
    case $progress_last in
    '' | *[!0-9]*) progress_last= ;;
    esac
    progress_begun=$(date +%s)
    progress_said=
}

progress_left() {
    progress_took=$(($(date +%s) - progress_begun))
    if [ -n "$progress_last" ]; then
        progress_seconds=$((progress_last * (100 - $1) / 100))
    elif [ "$1" -ge 5 ] && [ $progress_took -ge 2 ]; then
        progress_seconds=$((progress_took * (100 - $1) / $1))
    else
        return
    fi
    if [ $progress_seconds -ge 90 ]; then
        echo ", about $(((progress_seconds + 30) / 60)) min left"
    elif [ $progress_seconds -gt 0 ]; then
        echo ", about $progress_seconds s left"
    fi
}

progress_show() {
    [ "${GPUDIRECT_PROGRESS-}" != off ] || return 0
    progress_line=$2
    if [ ! -t 1 ]; then
        [ "$progress_said" != "$(($1 / 10))" ] || return 0
        progress_said=$(($1 / 10))
        echo "   $1 % $progress_line$(progress_left "$1")"
        return
    fi
    progress_bar= progress_at=0
    while [ $progress_at -lt 20 ]; do
        if [ $((progress_at * 5)) -lt "$1" ]; then progress_bar="$progress_bar#"; else progress_bar="$progress_bar."; fi
        progress_at=$((progress_at + 1))
    done
    progress_said=terminal
    printf '\r\033[K   [%s] %3d %% %s%s' "$progress_bar" "$1" "$progress_line" "$(progress_left "$1")"
}

# Ends the line, if there is one; without an argument it also went well.
progress_end() {
    [ "${progress_said-}" != terminal ] || echo
    progress_said=
    [ $# -eq 0 ] || return 0
    { mkdir -p "${progress_file%/*}" && echo $(($(date +%s) - progress_begun)) >"$progress_file"; } 2>/dev/null || :
}
