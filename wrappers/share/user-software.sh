# The values of user software for the commands that pack, unpack and install it, sourced by them after container.sh.
# shellcheck shell=bash disable=SC2034,SC2154 # variables for scripts that source this; those of values.sh

source "$sifmod_root/share/layers.sh"

# describe_user_software: set the values for packing and carry-over, which are the same files in every installation. The other
# commands don't call it: it would change exported variables of the same names, which the container inherits.
describe_user_software() {
    local name
    more_values
    root=$sifmod_root module=$sifmod_module
    directory='' packed='' unpacked_mark='' previous='' layers='' flattened='' removed='' sums='' package_list='' lock_file=''
    commands='' commands_lock=''
    for name in "${!sifmod_names[@]}"; do printf -v "$name" %s "$root/${sifmod_names[$name]}"; done
    most_layers=$sifmod_most_layers site_packages=$sifmod_site_packages line_of_layer=$sifmod_line_of_layer
    # in the container
    user_software=${sifmod_inner[user_software]}
    venv=$sifmod_venv_path
    inside=${sifmod_inner[inside]}
    consistency=${sifmod_inner[consistency]}
    uv=("$sifmod_python" -I "${sifmod_inner[installers]}" uv)
}
