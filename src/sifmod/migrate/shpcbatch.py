"""Many modules of SHPC, converted into a folder of easyconfigs in which `eb --robot` finds each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sifmod.eb.space import letter_folder
from sifmod.errors import RecipeError, SifmodError
from sifmod.host.files import size_of
from sifmod.host.writing import write_new
from sifmod.migrate.shpc import ConvertedTool
from sifmod.text.progress import Progress


@dataclass
class Batch:
    """What became of many modules: what each easyconfig was made from, and what was refused, and why."""

    written: list[tuple[Path, Path, ConvertedTool]] = field(default_factory=list)
    refused: list[tuple[Path, RecipeError]] = field(default_factory=list)


def convert_all(
    paths: Sequence[Path],
    convert: Callable[[Path], ConvertedTool],
    *,
    output: Path,
    force: bool = False,
    progress: Progress,
) -> Batch:
    """Convert files into a folder, each where EasyBuild looks below a robot path; existing ones only by `force`.

    Raises:
        SifmodError: the folder is not empty, or can't be written to.
    """
    batch = Batch()
    made: dict[str, Path] = {}
    try:
        output.mkdir(exist_ok=True)
        if not force and any(output.iterdir()):
            raise SifmodError(f"'{output}' is not empty: choose a new folder, or overwrite its files with --force")
        sizes = [size_of(path) for path in paths]
        with progress.step("converting", size=sum(sizes)) as step:
            for path, size in zip(paths, sizes):
                try:
                    result = convert(path)
                    _refuse_second(made, result, path)
                except RecipeError as error:
                    batch.refused.append((path, error))
                else:
                    target = output / letter_folder(result.name) / result.file_name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    write_new(target, result.text, force=force)
                    batch.written.append((path, target, result))
                step.advance(size)
    except OSError as error:
        raise SifmodError(f"'{error.filename or output}' can't be used: {error.strerror}") from error
    return batch


def _refuse_second(made: dict[str, Path], result: ConvertedTool, path: Path) -> None:
    """Refuse what EasyBuild would install into the folder of another one."""
    earlier = made.setdefault(result.file_name, path)
    if earlier is not path:
        raise RecipeError(
            "the same name and version as another one",
            f"'{path}' has the same name and version as '{earlier}', {result.file_name[:-3]}: convert both with "
            "--full-name",
        )
