# Sourced by the job of Open OnDemand once it has started script.sh, SCRIPT_PID; it has defined clean_up, and then passes host, port and
# password on to the browser, in a file of mode 600. They are those of the server that script.sh has started, as soon as it answers.
# shellcheck shell=bash disable=SC2154,SC2034 # SCRIPT_PID; host, port, password
sifmod_state=~/.local/state/sifmod/serve/$SLURM_JOB_ID
until [[ -e $sifmod_state.json ]]; do
    kill -0 "$SCRIPT_PID" 2>/dev/null || clean_up 1
    sleep 1
done
[[ $(<"$sifmod_state.json") =~ \"url\":\ \"http://([A-Za-z0-9._-]+):([0-9]+)\" ]] || clean_up 1
host=${BASH_REMATCH[1]}
port=${BASH_REMATCH[2]}
password=$(<"$sifmod_state.key")
