"""own_symbols.py LIBRARY ...: lets each shared library keep the static variables of its templates to itself.

GCC gives these variables the binding STB_GNU_UNIQUE. The dynamic loader then uses one variable of a name in the whole
process, even for libraries that know nothing of each other. Two releases of OpenFst so share one table of flags with
two layouts: loading the second waits for ever, or writes past the end of the table. A weak symbol has no such effect.
"""

import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

UNIQUE, WEAK = 10, 2  # st_info holds the binding in its upper four bits
ST_INFO = 4  # offset in Elf64_Sym


def own_symbols(path: Path) -> None:
    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        begin, size, step = table["sh_offset"], table["sh_size"], table["sh_entsize"]
    content = bytearray(path.read_bytes())
    for at in range(begin + ST_INFO, begin + size, step):
        if content[at] >> 4 == UNIQUE:
            content[at] = WEAK << 4 | content[at] & 15
    path.write_bytes(content)


for name in sys.argv[1:]:
    own_symbols(Path(name))
