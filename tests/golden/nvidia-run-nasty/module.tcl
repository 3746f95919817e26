
# The container, written by sifmod VERSION: its values, and the code that sets them until unload.
# In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the container only.
# binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.
array set v {
    family "container"
    image "/tmp/a b,c'd\$e/nasty \$image \"1\".sif"
    installdir "/tmp/a b,c'd\$e"
    env_name "PYTORCHMINNGC"
    binds {
        "/tmp/a b\\,c'd\$e/runscripts:/runscripts:ro"
        "/tmp/a b\\,c'd\$e/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro"
        "/site\\,data:/data 1:ro"
        "/own\\,data:/own:rw"
        "/plain"
    }
    optional_binds { { "/it's/\$HOME" "/it's/\$HOME" } }
    runtime_variables {
        { "_NV" "1" }
        { "ENV_PREPEND_PATH" "/runscripts:/user-software/venv/a+b/bin:/opt/venv/bin" }
        { "ENV_VIRTUAL_ENV" "/user-software/venv/a+b" }
        { "ENV_VIRTUAL_ENV_PROMPT" "(a+b) " }
        { "ENV_WITH_CONDA_VENV" "source /runscripts/init-conda-venv" }
        { "ENV_WITH_VENV" "source /user-software/venv/a+b/bin/activate" }
        { "ENV_JUPYTER_PREFER_ENV_PATH" "1" }
        { "ENV_PREPEND_LD_LIBRARY_PATH" "/.singularity.d/libs" }
        { "ENV_PYTHONHOME" "" }
        { "ENV_UV_LINK_MODE" "copy" }
    }
    exported { { "EMPTY" "" } { "SHARED" "easyconfig's" } }
    expanded { "HOME" "USER" }
    cache {
        root "/it's \$\{SLURM_JOB_ACCOUNT\}/\$(id),a:b/\$\{USER\}"
        expanded { "SLURM_JOB_ACCOUNT" "USER" }
        folders {
            { "HF_HOME" "hugging 'face'" }
            { "TORCH_EXTENSIONS_DIR" "PyTorch-NGC/24.05 it's/c" }
            { "TORCH_HOME" "a/b" }
        }
        unclean "its path is not absolute here, or has '//', '.' or '..' in it"
        missing "does not exist (make it with: mkdir -p -m 700)"
        way {
            foreign "belongs to another user, who could put other files there"
            shared "can be written to by others, who could put other files there (chmod go-w, or chmod +t if they need it)"
            link "is a link that is not followed: name the folder itself"
            unseen "can't be looked at with this Lua, which has no posix.sys.stat"
        }
        unusable "can't be made (no space, or no permission), or is not a folder that you can write to"
        advice "so `singularity exec` uses default places for caches. The site has them in /it's \$\{SLURM_JOB_ACCOUNT\}/\$(id),a:b/\$\{USER\}"
    }
    features {
        names { "it-s" "gpus" "other" }
        chosen { "it-s" "gpus" }
        exported { { "FEATURE" } { "QUOTES" "it's \"\$HOME\" `id` \\n" } }
        runtime_variables {
            { "ENV_INNER" }
            { "ENV_LD_LIBRARY_PATH" }
            { "ENV_PYTHONNOUSERSITE" "1" }
            { "_NO_MOUNT" }
            { "_NO_UMASK" }
        }
        library_tail "\$\{LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH\}"
        record "__SIFMOD_FEATURES_PYTORCHMINNGC"
        all {
            {
                name "it-s"
                needs { "/it's/\$HOME \[x\]" }
                hosts { "nid\[0-9\]*" "a-b.c?" }
                partitions {}
                binds {
                    {
                        pattern "/it's \$HOME/\[a-c\]*/lib?.so"
                        folder "/ho st/"
                        options ""
                        missing "the feature 'it-s' needs '/it's \$HOME/\[a-c\]*/lib?.so', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s"
                    }
                    {
                        source "/a,b"
                        argument "/a\\,b:/it's:ro"
                        missing "the feature 'it-s' needs '/a,b', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s"
                    }
                    { pattern "/dev/cxi\[0-9\]" folder "" options "ro" }
                    { source "/x y" argument "/x y" }
                }
                exported { { "QUOTES" } { "FEATURE" "it's \"\$HOME\" `id` \\n" } }
                runtime_variables {
                    { "ENV_INNER" "\$(id) it's" }
                    { "ENV_PYTHONNOUSERSITE" }
                    { "_NO_UMASK" "1" }
                    { "_NO_MOUNT" "a 'b'" }
                }
                library_path "/ho+st/lib:/it%s"
            }
            {
                name "gpus"
                needs { "/dev/kfd" "/gpus" }
                hosts {}
                partitions {}
                binds {}
                exported {}
                runtime_variables {}
                library_path "/gpus"
            }
            {
                name "other"
                needs {}
                hosts {}
                partitions {}
                binds {}
                exported {}
                runtime_variables {}
                library_path ""
            }
        }
        refusals {
            {
                features { "it-s" "other" }
                message "the features 'it-s' and 'other' conflict: choose one with SIFMOD_FEATURES=-it-s or SIFMOD_FEATURES=-other"
            }
        }
    }
    user_software {
        venv "a+b"
        packed_bind "/tmp/a b\\,c'd\$e/user-software.squashfs:/user-software:ro,image-src=/"
        directory_bind "/tmp/a b\\,c'd\$e/user-software:/user-software"
        at_start ""
        layers_at "/user-layers/"
        most_layers 8
        most_manifest 1048576
        source "/tmp/a b\\,c'd\$e"
        names {
            directory "/user-software"
            packed "/user-software.squashfs"
            unpacked_mark "/user-software.unpacked"
            layers "/user-software.layers/"
        }
        packed_format { magic "hsqs" length_at 40 size 96 }
        said {
            unreadable {
                "/tmp/a b,c'd\$e/user-software.squashfs can't be read, so /tmp/a b,c'd\$e/user-software is used. Its owner can allow it with: chmod ug+r '/tmp/a b,c'\"'\"'d\$e/user-software.squashfs'"
                "/tmp/a b,c'd\$e/user-software.squashfs can't be read, and your packages are in it. Its owner can allow it with: chmod ug+r '/tmp/a b,c'\"'\"'d\$e/user-software.squashfs'"
            }
            damaged {
                "/tmp/a b,c'd\$e/user-software.squashfs is damaged, so /tmp/a b,c'd\$e/user-software is used. Pack it again with: rm '/tmp/a b,c'\"'\"'d\$e/user-software.squashfs'; make-squashfs"
                "/tmp/a b,c'd\$e/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or, if /tmp/a b,c'd\$e/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise begin anew with: rm '/tmp/a b,c'\"'\"'d\$e/user-software.squashfs'; module unload 'PyTorch-NGC/24.05 it'\"'\"'s'; eb --rebuild '/tmp/a b,c'\"'\"'d\$e'/easybuild/*.eb. Then, if /tmp/a b,c'd\$e/user-software.txt is there, load the module and type: carry-over '/tmp/a b,c'\"'\"'d\$e/user-software.txt'"
            }
            missing "the user software is missing: neither /tmp/a b,c'd\$e/user-software nor /tmp/a b,c'd\$e/user-software.squashfs exists. Restore the file, if /tmp/a b,c'd\$e/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise make it again, without your packages, with: module unload 'PyTorch-NGC/24.05 it'\"'\"'s'; eb --rebuild '/tmp/a b,c'\"'\"'d\$e'/easybuild/*.eb. Then, if /tmp/a b,c'd\$e/user-software.txt is there, load the module and type: carry-over '/tmp/a b,c'\"'\"'d\$e/user-software.txt'"
            too_many_layers "is left out, and its packages are missing: containers have at most 8 layers"
            layer_is_left_out "is left out, and its packages are missing: it can't be read, or it is damaged. Its owner can restore it from a backup, or make it readable with chmod ug+r"
            layer_is_gone "is gone, and its packages and those of newer layers are missing: its owner can restore it from a backup"
        }
    }
    reloading { "make-squashfs" "unmake-squashfs" "add-layer" "remove-layer" "flatten-layers" }
    mounted_anyway { "/tmp" "/var/tmp" }
    own_python_in "/tmp/a b,c'd\$e/bin"
    central {
        {
            "/central \"images\"/nasty \$image \"1\".sif"
            12345678901
            "0123456789abcdef0123456789abcdef"
        }
        { "/cent`ral`/nasty \$image \"1\".sif" 12345678901 "0123456789abcdef0123456789abcdef" }
    }
    image_header { id_at 48 id_length 16 }
    is_closed "can't be read, so PyTorch-NGC/24.05 it's can't be used. Permissions? Moved? 'namei -l' with this path shows what is closed or gone: ask its owner"
    image_is_gone "the image '/tmp/a b,c'd\$e/nasty \$image \"1\".sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
}
# helpers.tcl
# family.tcl
# container.tcl
# central.tcl
# image.tcl
# optional_binds.tcl
# expand.tcl
# patterns.tcl
# features.tcl
# user_software.tcl
# layers.tcl
# job.tcl
# variables.tcl
# exported.tcl
# cache.tcl
# eb_python.tcl
# reload.tcl
