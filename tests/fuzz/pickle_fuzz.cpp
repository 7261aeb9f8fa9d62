// Reads the pickle of a state dict.
#include "models/formats/torch_weights.h"
#include "tests/fuzz/fuzz.h"

RTFX_FUZZ_TARGET(bytes) { rtfx::read_state_dict_pickle(bytes, "fuzz"); }
