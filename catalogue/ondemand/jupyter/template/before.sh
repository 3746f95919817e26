# Sourced by the job of Open OnDemand before script.sh; it has defined host, find_port and create_passwd, and passes host, port and
# password on to the browser.
# shellcheck shell=bash disable=SC2154 # host
port=$(find_port)
password=$(create_passwd 32)
sifmod_salt=$(create_passwd 16)
sifmod_hash=$(printf '%s' "$password$sifmod_salt" | sha256sum)
export CONFIG_FILE=$PWD/jupyter_config.py
# Only this user may read it. The login comes from the page of Open OnDemand, which is another site for the browser.
(
    umask 077
    cat >"$CONFIG_FILE" <<CONFIG
for settings in (c.ServerApp, c.NotebookApp):  # the latter for Notebook 6
    settings.ip = "*"
    settings.port = $port
    settings.port_retries = 0
    settings.password = "sha256:$sifmod_salt:${sifmod_hash%% *}"
    settings.base_url = "/node/$host/$port/"
    settings.open_browser = False
    settings.allow_remote_access = True
    settings.disable_check_xsrf = True
CONFIG
)
