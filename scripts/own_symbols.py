"""own_symbols.py LIBRARY ...: lets each shared library keep the static variables of its templates to itself.

GCC gives these variables the binding STB_GNU_UNIQUE. The dynamic loader then uses one variable of a name in the whole
process, even for libraries that know nothing of each other. Two releases of OpenFst so share one table of flags with
two layouts: loading the second waits for ever, or writes past the end of the table. A weak symbol has no such effect.

With --into FOLDER the libraries stay as they are. Their copies there are named as programs ask for them, and the list
of the copies is printed for CMake.
"""

import argparse
from pathlib import Path

from elftools.elf.elffile import ELFFile

UNIQUE, WEAK = 10, 2  # st_info holds the binding in its upper four bits
ST_INFO = 4  # offset in Elf64_Sym


def changed(path: Path) -> tuple[str, bytes]:
    """Returns the library's SONAME, and its content with weak symbols in place of unique ones."""
    content = bytearray(path.read_bytes())
    with path.open("rb") as file:
        elf = ELFFile(file)
        names = [tag.soname for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_SONAME")]
        table = elf.get_section_by_name(".dynsym")
        begin, size, step = table["sh_offset"], table["sh_size"], table["sh_entsize"]
    for at in range(begin + ST_INFO, begin + size, step):
        if content[at] >> 4 == UNIQUE:
            content[at] = WEAK << 4 | content[at] & 15
    return (names or [path.name])[0], bytes(content)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("libraries", nargs="+", type=Path, metavar="LIBRARY")
parser.add_argument("--into", type=Path, metavar="FOLDER")
arguments = parser.parse_args()
results = []
for library in arguments.libraries:
    name, content = changed(library)
    result = arguments.into / name if arguments.into else library
    result.parent.mkdir(parents=True, exist_ok=True)
    if not result.exists() or result.read_bytes() != content:  # a newer file makes the build link every program
        result.write_bytes(content)
    results.append(str(result))
if arguments.into:
    print(";".join(results), end="")
