#!/bin/sh
# commands.sh COMMAND...: look for commands in a container, and start the first 20 with --version. Any POSIX shell runs it.
# Prints for each a line of fields between tabs: "missing COMMAND", "broken COMMAND ANSWER" or "started COMMAND ANSWER",
# with the first line of the answer.
# A command has 5 seconds; after 5 seconds in all, and where the image lacks a tool that this needs, no more are started.
answers=
if command -v timeout && command -v date && command -v head; then answers=$(mktemp -d 2>/dev/null) || answers=; fi >/dev/null 2>&1
if [ -n "$answers" ]; then begun=$(date +%s); fi
left=20
for command; do
    if ! place=$(command -v -- "$command" 2>/dev/null) || { [ "${command#/}" != "$command" ] && { [ ! -x "$place" ] || [ -d "$place" ]; }; }; then
        printf 'missing\t%s\n' "$command"
        continue
    fi
    if [ -z "$answers" ] || [ $left -eq 0 ] || [ $(($(date +%s) - begun)) -ge 5 ]; then continue; fi
    left=$((left - 1))
    # KILL, because a command may ignore TERM; and `head` has its own end, because what a command leaves running keeps the pipe
    { timeout -s KILL 5 "$command" --version </dev/null 2>&1 || printf '%s' "$?" >"$answers/status"; } |
        timeout -s KILL 6 head -c 300 >"$answers/answer"
    status=0 answer=
    if [ -e "$answers/status" ]; then
        IFS= read -r status <"$answers/status" || :
        rm -f -- "$answers/status"
    fi
    IFS= read -r answer <"$answers/answer" || :
    word=started
    case $status in
    126 | 127) word=broken ;;
    0) ;;
    *) answer= ;; # it has no --version
    esac
    printf '%s\t%s\t%s\n' "$word" "$command" "$answer"
done
if [ -n "$answers" ]; then rm -rf -- "$answers"; fi
