"""What EasyBuild itself makes of environments: reads a JSON list of cases on standard input, prints the answers.

A program of its own, because EasyBuild keeps its configuration for the life of a process, and parts of it from import
on. It imports EasyBuild once and answers each case in a fork.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from easybuild.framework.easyconfig import easyconfig as eb_easyconfig
from easybuild.tools import config, filetools, options


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Return what EasyBuild says of a case: its environment, the current directory, names to find."""
    os.environ.clear()
    os.environ.update(case["environ"])
    os.chdir(case["cwd"])
    sys.path[0] = str(Path.cwd())  # eb runs `python -m easybuild.main`
    importlib.reload(config)  # these read HOME and XDG_* when they are imported
    importlib.reload(options)
    try:
        parsed = options.parse_options(args=case.get("args", []))
        config.init(parsed.options, parsed.get_options_by_section("config"))
        robot_paths = parsed.options.robot_paths
        config.init_build_options({"robot_path": robot_paths}, cmdline_options=parsed.options)
        software = os.path.abspath(config.install_path("software"))  # noqa: PTH100 - what EasyBlock.gen_installdir does
        installdirs = [f"{software}/{subdir}" for subdir in case.get("subdirs", [])]
        return {
            "software": software,
            "modules": os.path.abspath(config.install_path("mod")),  # noqa: PTH100 - likewise
            "suffix": config.build_option("suffix_modules_path"),
            "sources": [str(Path(path).absolute()) for path in config.source_paths()],
            "robot_paths": [str(Path(path).absolute()) for path in robot_paths],
            "locks": [
                str(Path(filetools.det_lock_path(installdir.replace("/", "_"))).absolute())
                for installdir in installdirs
            ],
            "sections": parsed.config_prefix_sectionnames_map[""],
            "letters": [eb_easyconfig.letter_dir_for(name) for name in case.get("names", [])],
            "found": [located(name, robot_paths) for name in case.get("files", [])],
        }
    except (Exception, SystemExit) as error:
        return {"error": str(error)}


def located(name: str, robot_paths: list[str]) -> str:
    try:
        return str(filetools.locate_files([name], robot_paths, ignore_subdirs=[".git", ".svn", "__archive__"])[0])
    except config.EasyBuildError:
        return ""


def in_a_fork(case: dict[str, Any]) -> dict[str, Any]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        try:
            text = json.dumps(answer(case))
        except BaseException as error:
            text = json.dumps({"error": f"the helper failed: {error!r}"})
        with os.fdopen(writer, "w") as file:
            file.write(text)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(text)
    return found


if __name__ == "__main__":
    json.dump([in_a_fork(case) for case in json.load(sys.stdin)], sys.stdout)
