// Reads weights as torch.save() writes them: a zip archive of a pickle and one file per storage.
//
// A training checkpoint has the dictionary as its entry "state_dict" or "model_state_dict". The
// optimizer's state and settings beside it are ignored.
//
// The pickle is read by an allow-list, and nothing is executed. A pickle is a program for a small
// stack machine, and Python's own reader calls any function that the program names. This reader
// knows only the opcodes and the dozen names that torch.save() uses for tensors in dictionaries
// (NeMo saves an OrderedDict that carries `_metadata`). It only notes where a tensor's bytes are.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

/// A tensor as a pickle describes it: a view of a storage, which is a file of its own.
struct PickledTensor {
  std::string name;
  std::string storage;           // key of the storage: the archive's member data/<key>
  c10::ScalarType dtype;         // dtype of the storage
  int64_t storage_elements = 0;  // number that the pickle states
  int64_t offset = 0;            // elements
  std::vector<int64_t> sizes, strides;
};

/// Returns the tensors of the dictionary that `pickle` holds, in its order. Entries that are plain
/// values, such as None or a number, are left out. Throws UserError for an opcode or a global that
/// is not allowed, and names it. Also throws where there is no tensor, and for anything truncated
/// or malformed. The memory it takes is proportional to the pickle, which may have up to 4 MiB.
/// Deep nesting takes no stack.
std::vector<PickledTensor> read_state_dict_pickle(std::string_view pickle,
                                                  const std::string& where);

/// Returns the state dict in `file`, whose tensors are views of it. Storages may be fp32, fp16,
/// bf16 and integers. Tied tensors share one storage. Throws UserError, and names what is damaged
/// or not supported.
StateDict read_torch_weights(const StoredBytes& file, const std::string& where);

}  // namespace rtfx
