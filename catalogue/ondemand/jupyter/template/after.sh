# Sourced by the job of Open OnDemand once it has started script.sh, SCRIPT_PID; it has defined clean_up. The page offers to connect after
# this, so it waits until Jupyter listens.
# shellcheck shell=bash disable=SC2154 # port, SCRIPT_PID
until (: <"/dev/tcp/localhost/$port") 2>/dev/null; do
    kill -0 "$SCRIPT_PID" 2>/dev/null || clean_up 1
    sleep 1
done
