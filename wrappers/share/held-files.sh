# The open files of share/hold-container, by which tasks find it: share-container.sh and hold-container source this. They have no names
# but for one link, in a folder that only the user may enter. However the process ends, the link then leads nowhere.
#
#     PLACE/NAME -> /proc/PROCESS/fd/ 10  commands  a pipe that every command in the container holds open for writing: at its end, all
#                                                   have left
#                                     11  silence   a pipe in which nothing is written, to wait at
#                                     12  key       what the container is made of
#                                     13  entry     how to enter it, in bash
#                                     14  whole     not empty once 13 is whole
#                                     15  said      not empty once a task has said why it has a container of its own
#                                     16  place     PLACE itself, by which the process is known
# shellcheck shell=bash disable=SC2034 # for scripts that source this

declare -A sifmod_held=([commands]=10 [silence]=11 [key]=12 [entry]=13 [whole]=14 [said]=15 [place]=16)

# open_held FOLDER: open those that tasks open, and 3 to 9 for the holder, by names in an empty folder. A pipe that is opened for
# reading or for writing waits for the other end, so each is opened for both first.
# shellcheck disable=SC2094
open_held() {
    mkfifo -m 600 -- "$1"/{commands,silence,input,output} || return
    exec 3<>"$1/commands" 10<"$1/commands" 11<>"$1/silence" || return
    exec 4<>"$1/input" 5<"$1/input" 6<>"$1/output" 7<"$1/output" || return
    exec 12<>"$1/key" 13<>"$1/entry" 14<>"$1/whole" 15<>"$1/said" 8<>"$1/messages" 9<"$1/messages"
}
