sifmod_expanded=(HOME USER)
sifmod_as_module='import sys; sys.path[:1] = filter(None, sys.path[:1]); import runpy; runpy.run_module(sys.argv.pop(1), run_name='"'"'__main__'"'"', alter_sys=True)'
sifmod_feature_record=__SIFMOD_FEATURES
sifmod_most_layers=8
sifmod_most_manifest=1048576
sifmod_packed_format=(hsqs 40 96)
sifmod_inner_layers=/user-layers
sifmod_image_header=(48 16)
sifmod_shareable='_BIND _BINDPATH _MOUNT _NO_HOME _NO_MOUNT _UNDERLAY _UNSQUASH _USERNS _CACHEDIR _CONFIGDIR _LOCALCACHEDIR _PULLFOLDER _TMPDIR _DOCKER_PASSWORD _DOCKER_USERNAME _DISABLE_CACHE _MESSAGELEVEL _NOCOLOR _ROCM _NV _NVCCLI'
declare -gA sifmod_layer_said=(
    [too_many_layers]='is left out, and its packages are missing: containers have at most 8 layers'
    [layer_is_left_out]='is left out, and its packages are missing: it can'"'"'t be read, or it is damaged. Its owner can restore it from a backup, or make it readable with chmod ug+r'
    [layer_is_gone]='is gone, and its packages and those of newer layers are missing: its owner can restore it from a backup'
)
declare -gA sifmod_names=(
    [directory]=user-software [packed]=user-software.squashfs [unpacked_mark]=user-software.unpacked
    [layers]=user-software.layers [previous]=user-software.squashfs.previous
    [flattened]=user-software.layers.flattened [removed]=user-software.removed
    [sums]=user-software.sha256 [package_list]=user-software.txt [lock_file]=.user-software.lock
    [commands]=user-bin [commands_lock]=user-bin/.lock
)
sifmod_folder_modes=.sifmod-folder-modes
sifmod_install_lock=.sifmod-lock
sifmod_stubs=.sifmod-stubs
declare -gA sifmod_inner=(
    [user_software]=/user-software [inside]=/sifmod [uv]=/sifmod/uv [wheels]=/sifmod/wheels
    [wheels_at_home]=.local/share/sifmod/wheels [installers]=/runscripts/installers.py
    [consistency]=/runscripts/consistency.py
)
sifmod_contained_options=(--containall --no-home --no-mount cwd,hostfs,bind-paths --pwd /)
declare -gA sifmod_system_folders=(
    [/bin]=image [/etc]=image [/lib]=image [/lib64]=image [/mnt]=image [/opt]=image [/sbin]=image
    [/usr]=image [/var]=image [/]=runtime [/dev]=runtime [/proc]=runtime [/sys]=runtime
)
sifmod_other_installers=(pdm poetry)
sifmod_seeded=(pip setuptools wheel)
sifmod_seeded_commands='python[0-9.]*t?|pip[0-9.]*|easy_install.*|wheel|[Aa]ctivate.*|deactivate.*'
sifmod_host_commands=(
    apptainer awk basename bash cat chmod comm cp csh cut date df diff dirname du eb enroot env find
    fish flock fusermount fusermount3 gawk getent git gpg grep head hostname id join kdestroy kinit
    klist ksh ln ls lua mkdir mkfifo mksquashfs mktemp ml module mountpoint mv newgrp nproc nsenter
    od passwd readlink rm rmdir rsync sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol
    scp scrontab sdiag sed setpriv setsid sftp sg sh sh5util sha256sum sifmod sinfo singularity
    sleep sort sprio squashfuse squashfuse_ll squeue sreport srun ssh ssh-add ssh-agent ssh-copy-id
    ssh-keygen ssh-keyscan sshare sstat stat strigger su sudo sync tail tar tclsh tcsh tee timeout
    touch tr uname uniq unsquashfs wc which xargs zsh
)
