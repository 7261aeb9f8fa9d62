// Tests pickles that are written instruction by instruction: what the allow-list takes, and what it
// names.
#include "models/formats/torch_weights.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace rtfx {
namespace {

using std::string_literals::operator""s;

const std::string kStart = "\x80\x02"s;
const std::string kStorageType = "ctorch\nFloatStorage\n";
const std::string kRebuild = "ctorch._utils\n_rebuild_tensor_v2\n";

std::string text(const std::string& value) {
  return "X" + std::string(1, static_cast<char>(value.size())) + "\0\0\0"s + value;
}
std::string number(int value) { return "K" + std::string(1, static_cast<char>(value)); }

/// Returns a tensor [2, 3] with strides [3, 1], at offset 1 of a storage `key` of 10 elements.
std::string tensor(const std::string& key) {
  return kRebuild + "((" + text("storage") + kStorageType + text(key) + text("cpu") + number(10) +
         "tQ" + number(1) + number(2) + number(3) + "\x86" + number(3) + number(1) + "\x86" +
         "\x89" + "ccollections\nOrderedDict\n)RtR";
}

std::vector<PickledTensor> read(const std::string& pickle) {
  return read_state_dict_pickle(pickle, "file");
}

std::string complaint(const std::string& pickle) {
  try {
    read(pickle);
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(Pickle, ReadsTheOrderedDictWithMetadataThatNemoSaves) {
  // BUILD sets the attribute _metadata, after which LibTorch's own reader gives None.
  const std::string metadata = "}" + text("_metadata") + "ccollections\nOrderedDict\n)Rs";
  const auto all = read(kStart + "ccollections\nOrderedDict\n)R(" + text("a") + tensor("0") +
                        text("b") + tensor("1") + "u" + metadata + "b.");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "a");
  EXPECT_EQ(all[1].storage, "1");
  EXPECT_EQ(all[0].dtype, c10::kFloat);
  EXPECT_EQ(all[0].storage_elements, 10);
  EXPECT_EQ(all[0].offset, 1);
  EXPECT_EQ(all[0].sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(all[0].strides, (std::vector<int64_t>{3, 1}));
}

TEST(Pickle, ReadsPlainDictionariesParametersAndNone) {
  const std::string parameter = "ctorch._utils\n_rebuild_parameter\n(" + tensor("7") + "\x88" +
                                "ccollections\nOrderedDict\n)RtR";
  const auto all =
      read(kStart + "}" + text("p") + parameter + "s" + text("extra_state") + "Ns" + ".");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "p");
  EXPECT_EQ(all[0].storage, "7");
}

TEST(Pickle, ReadsTheStateDictOfACheckpointOfTraining) {
  // {"epoch": 3, "state_dict": {"a": tensor}, "optimizer_states": [..], "hyper_parameters":
  // Foreign()}
  const std::string object =
      "comegaconf.dictconfig\nDictConfig\n)\x81}" + text("x") + number(1) + "sb";
  const std::string called = "cpathlib\nPosixPath\n(" + text("a") + "tR";
  const std::string settings =
      text("hyper_parameters") + object + "s" + text("paths") + called + "s";
  const auto all = read(kStart + "}" + text("epoch") + number(3) + "s" + text("state_dict") + "}" +
                        text("a") + tensor("4") + "s" + "s" + text("optimizer_states") + "](" +
                        tensor("9") + "e" + "s" + settings + ".");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "a");
  EXPECT_EQ(all[0].storage, "4");
  // In a dictionary of the tensors themselves, no foreign object is passed over.
  EXPECT_NE(complaint(kStart + "}" + text("a") + tensor("4") + "s" + settings + ".")
                .find("omegaconf.dictconfig.DictConfig"),
            std::string::npos);
  EXPECT_EQ(
      read(kStart + "}" + text("a") + tensor("4") + "s" + text("step") + number(7) + "s.").size(),
      1u);
}

TEST(Pickle, ReadsProtocolFour) {
  // Protocol 4 uses FRAME, SHORT_BINUNICODE, MEMOIZE and STACK_GLOBAL.
  const auto word = [](const std::string& value) {
    return "\x8c" + std::string(1, static_cast<char>(value.size())) + value + "\x94";
  };
  const std::string frame = "\x95" + std::string(8, '\0');
  const auto all = read("\x80\x04" + frame + word("collections") + word("OrderedDict") +
                        "\x93\x94" + ")R\x94" + word("w") + tensor("0") + "s.");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "w");
}

TEST(Pickle, NothingForeignIsCalled) {
  EXPECT_NE(complaint(kStart + "cos\nsystem\n" + text("touch /tmp/x") + "\x85R.").find("os.system"),
            std::string::npos);
  EXPECT_NE(complaint(kStart + "cbuiltins\neval\n" + text("1") + "\x85R.").find("builtins.eval"),
            std::string::npos);
  EXPECT_NE(complaint(kStart + "i__main__\nX\n.").find("opcode 0x69"), std::string::npos);
  EXPECT_NE(complaint(kStart + "ctorch._utils\n_rebuild_qtensor\n.").find("quantised"),
            std::string::npos);
}

TEST(Pickle, WhatIsMalformedIsAnError) {
  const std::string good = kStart + "}" + text("a") + tensor("0") + "s.";
  ASSERT_EQ(read(good).size(), 1u);
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(read(good.substr(0, size)), UserError) << size;
  for (const std::string& program :
       {"."s, "R."s, "h\1."s, "u."s, "t."s, "s."s, "}" + text("a") + "K\1s.",
        "}K\1" + tensor("0") + "s.", "Q."s, "N."s, "\x8a\x09" + std::string(9, '\1') + "."}) {
    EXPECT_THROW(read(kStart + program), UserError) << program;
  }
}

TEST(Pickle, DepthCostsNoStack) {
  std::string nested = kStart;
  for (int i = 0; i < 600'000; ++i) nested += i == 0 ? ")" : "\x85";
  EXPECT_THROW(read(nested + "."), UserError);
  EXPECT_THROW(read(kStart + std::string(5 << 20, ')') + "."), UserError);
}

}  // namespace
}  // namespace rtfx
