"""A software bill of materials (SBOM) of an image, in CycloneDX. Needs the libraries of the extra `sbom`."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Optional

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from sifmod import __version__
from sifmod.image.inventory import APK, DEB, PYPI, RPM, InstalledPackage, Inventory
from sifmod.text.printable import one_line

# The keys under which registries and builders label images (OCI image specification, annotations).
_TITLE, _VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]{0,199}")
_LONGEST_LICENCE = 200
# Names of distributions in package URLs (definition of the type `rpm`), where they are not `ID` of os-release.
_NAMESPACES = {"rhel": "redhat"}


def cyclonedx(inventory: Inventory, *, name: str, labels: Mapping[str, str], sha256: str = "", seconds: int = 0) -> str:
    """Return the SBOM of an image as JSON (CycloneDX 1.6), the same for the same arguments."""
    image = Component(
        type=ComponentType.CONTAINER,
        bom_ref="image",
        name=_label(labels, _TITLE) or one_line(name),
        version=_label(labels, _VERSION),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else [],
    )
    parts = [_component(one, inventory) for one in inventory.packages]
    identity = f"sha256:{sha256}" if sha256 else "\n".join(str(part.bom_ref) for part in parts)
    if inventory.distribution:
        kind, version = ComponentType.OPERATING_SYSTEM, inventory.release or None
        parts.append(Component(type=kind, bom_ref="system", name=inventory.distribution, version=version))
    tool = Component(type=ComponentType.APPLICATION, name="sifmod", version=__version__)
    depending = [Dependency(part.bom_ref) for part in parts]
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, identity),
        metadata=BomMetaData(
            component=image,
            timestamp=datetime.fromtimestamp(seconds, timezone.utc),
            tools=ToolRepository(components=[tool]),
            properties=[Property(name="sifmod:missing", value=one_line(said)) for said in inventory.missing],
        ),
        components=parts,
        dependencies=[Dependency(image.bom_ref, depending), *depending],
    )
    # the output calls it for each part, which it looks for among all of them; nothing is left to register
    vars(bom)["register_dependency"] = lambda *_args, **_options: None
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def _component(package: InstalledPackage, inventory: Inventory) -> Component:
    url = _package_url(package, inventory)
    licence = one_line(package.licence)[:_LONGEST_LICENCE]
    return Component(
        bom_ref=str(url),
        name=package.name,
        version=package.version,
        purl=url,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
        properties=[Property(name="sifmod:python", value=one_line(prefix)) for prefix in package.prefixes],
    )


def _package_url(package: InstalledPackage, inventory: Inventory) -> PackageURL:
    namespace: Optional[str] = None
    qualifiers: dict[str, str] = {}
    name = package.name
    if package.manager in (DEB, RPM, APK):
        namespace = _NAMESPACES.get(inventory.distribution, inventory.distribution) or None
        distribution = "-".join(filter(None, (inventory.distribution, inventory.release)))
        epoch = str(package.epoch) if package.epoch else ""
        noted = {"arch": package.architecture, "epoch": epoch, "distro": distribution, "upstream": package.source}
        qualifiers = {key: value for key, value in noted.items() if value}
    elif package.manager == PYPI:
        name = canonicalize_name(name)
    return PackageURL(package.manager, namespace, name, package.version, qualifiers)


def _label(labels: Mapping[str, str], key: str) -> Optional[str]:
    value = labels.get(key, "")
    return value if _LABEL.fullmatch(value) else None
