"""wheel_platform.py WHEEL: the manylinux tag of a wheel, by the symbol versions that its libraries ask of the system's.
auditwheel would call LibTorch's libraries missing, which are torch's to bring."""

import re
import sys
import zipfile

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection


def glibc_versions(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                if file.read(4) != b"\x7fELF":
                    continue
                file.seek(0)
                for section in ELFFile(file).iter_sections():
                    if isinstance(section, GNUVerNeedSection):
                        for _, needed in section.iter_versions():
                            yield from (version.name for version in needed)


def main():
    (wheel,) = sys.argv[1:]
    found = (re.fullmatch(r"GLIBC_2\.(\d+)(\.\d+)?", name) for name in glibc_versions(wheel))
    print(f"manylinux_2_{max(int(match[1]) for match in found if match)}_x86_64")


if __name__ == "__main__":
    main()
