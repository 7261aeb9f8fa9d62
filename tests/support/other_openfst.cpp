// This is the table of flags of another release of OpenFst. Where our release has a mutex, this one
// has `first`. GCC shares the variable `reg` between all libraries of a process
// (scripts/own_symbols.py).

template <class T>
struct FlagRegister {
  static FlagRegister* GetRegister() {
    static auto reg = new FlagRegister;
    return reg;
  }
  int first = 1, others[31] = {};
};

extern "C" int first_of_its_flags() { return FlagRegister<int>::GetRegister()->first; }

const int while_loading = first_of_its_flags();
