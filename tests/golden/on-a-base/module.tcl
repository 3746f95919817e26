
# The container, written by sifmod VERSION: its values, and the code that sets them until unload.
# In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the container only.
# binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.
array set v {
    family "container"
    image "/home/me/Mine/1/demo.sif"
    installdir "/home/me/Mine/1"
    env_name "MINE"
    binds { "/home/me/Mine/1/runscripts:/runscripts:ro" }
    runtime_variables {
        { "ENV_PIP_CONSTRAINT" "/runscripts/pip-constraints.txt" }
        { "ENV_PREPEND_PATH" "/runscripts:/user-software/venv/demo/bin" }
        { "ENV_UV_EXCLUDE" "/runscripts/pip-constraints.txt" }
        { "ENV_VIRTUAL_ENV" "/user-software/venv/demo" }
        { "ENV_VIRTUAL_ENV_PROMPT" "(demo) " }
        { "ENV_WITH_CONDA_VENV" "source /runscripts/init-conda-venv" }
        { "ENV_WITH_VENV" "source /user-software/venv/demo/bin/activate" }
        { "ENV_JUPYTER_PREFER_ENV_PATH" "1" }
        { "ENV_PYTHONHOME" "" }
        { "ENV_PYTHONNOUSERSITE" "1" }
        { "ENV_UV_LINK_MODE" "copy" }
    }
    user_software {
        venv "demo"
        packed_bind "/home/me/Mine/1/user-software.squashfs:/user-software:ro,image-src=/"
        directory_bind "/home/me/Mine/1/user-software:/user-software"
        at_start "/home/me/Mine/1/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro"
        layers_at "/user-layers/"
        most_layers 8
        most_manifest 1048576
        source "/home/me/Mine/1"
        names {
            directory "/user-software"
            packed "/user-software.squashfs"
            unpacked_mark "/user-software.unpacked"
            layers "/user-software.layers/"
        }
        packed_format { magic "hsqs" length_at 40 size 96 }
        said {
            unreadable {
                "/home/me/Mine/1/user-software.squashfs can't be read, so /home/me/Mine/1/user-software is used. Its owner can allow it with: chmod ug+r /home/me/Mine/1/user-software.squashfs"
                "/home/me/Mine/1/user-software.squashfs can't be read, and your packages are in it. Its owner can allow it with: chmod ug+r /home/me/Mine/1/user-software.squashfs"
            }
            damaged {
                "/home/me/Mine/1/user-software.squashfs is damaged, so /home/me/Mine/1/user-software is used. Pack it again with: rm /home/me/Mine/1/user-software.squashfs; make-squashfs"
                "/home/me/Mine/1/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or, if /home/me/Mine/1/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise begin anew with: rm /home/me/Mine/1/user-software.squashfs; module unload Mine/1; eb --rebuild /home/me/Mine/1/easybuild/*.eb. Then, if /home/me/Mine/1/user-software.txt is there, load the module and type: carry-over /home/me/Mine/1/user-software.txt"
            }
            missing "the user software is missing: neither /home/me/Mine/1/user-software nor /home/me/Mine/1/user-software.squashfs exists. Restore the file, if /home/me/Mine/1/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise make it again, without your packages, with: module unload Mine/1; eb --rebuild /home/me/Mine/1/easybuild/*.eb. Then, if /home/me/Mine/1/user-software.txt is there, load the module and type: carry-over /home/me/Mine/1/user-software.txt"
            too_many_layers "is left out, and its packages are missing: containers have at most 8 layers"
            layer_is_left_out "is left out, and its packages are missing: it can't be read, or it is damaged. Its owner can restore it from a backup, or make it readable with chmod ug+r"
            layer_is_gone "is gone, and its packages and those of newer layers are missing: its owner can restore it from a backup"
        }
    }
    reloading { "make-squashfs" "unmake-squashfs" "add-layer" "remove-layer" "flatten-layers" }
    bases {
        {
            root "/projects/it's, \[x\]"
            source "/projects/it's\\, \[x\]"
            manifest "/projects/it's, \[x\]/share/sifmod.json"
            python_line "\u000a  \"python_version\": \"3.11\",\u000a"
            venv_line "\u000a  \"venv\": \"demo\",\u000a"
            image_line "\u000a  \"image_id\": \"0123\",\u000a"
            other_python "/projects/it's, \[x\] (Team/1) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over"
            other_venv "/projects/it's, \[x\] (Team/1) has another virtual environment now than demo, so its packages are missing: ask its owner, for that one, or install your packages in a new version of the module with carry-over"
            is_missing "/projects/it's, \[x\] (Team/1) has no user software now, so its packages are missing: ask its owner"
            is_gone "/projects/it's, \[x\] (Team/1) is gone or can't be read, so its packages are missing: ask its owner"
            other_image "/projects/it's, \[x\] (Team/1) has another image now than when Mine/1 was installed, with the same Python. To see what does not fit: list-packages --check"
        }
        {
            root "/apps/Python/3.11"
            source "/apps/Python/3.11"
            manifest "/apps/Python/3.11/share/sifmod.json"
            python_line "\u000a  \"python_version\": \"3.11\",\u000a"
            venv_line "\u000a  \"venv\": \"demo\",\u000a"
            image_line "\u000a  \"image_id\": \"0123\",\u000a"
            other_python "/apps/Python/3.11 (Python/3.11) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over"
            other_venv "/apps/Python/3.11 (Python/3.11) has another virtual environment now than demo, so its packages are missing: ask its owner, for that one, or install your packages in a new version of the module with carry-over"
            is_missing "/apps/Python/3.11 (Python/3.11) has no user software now, so its packages are missing: ask its owner"
            is_gone "/apps/Python/3.11 (Python/3.11) is gone or can't be read, so its packages are missing: ask its owner"
            other_image "/apps/Python/3.11 (Python/3.11) has another image now than when Mine/1 was installed, with the same Python. To see what does not fit: list-packages --check"
        }
    }
    mounted_anyway { "/tmp" "/var/tmp" }
    own_python_in "/home/me/Mine/1/bin"
    is_closed "can't be read, so Mine/1 can't be used. Permissions? Moved? 'namei -l' with this path shows what is closed or gone: ask its owner"
    image_is_gone "the image '' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
}
# helpers.tcl
# family.tcl
# container.tcl
# image.tcl
# user_software.tcl
# builds_on.tcl
# layers.tcl
# job.tcl
# variables.tcl
# eb_python.tcl
# reload.tcl
