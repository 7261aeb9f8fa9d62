// Tests valid attention contexts and their meaning, and invalid ones.
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/checkpoint/config.h"

namespace rtfx {
namespace {

using Context = std::vector<int64_t>;
using Style = EncoderConfig::ContextStyle;
using Positions = EncoderConfig::Positions;

ModelConfig model_of(Style style, Positions positions = Positions::relative) {
  ModelConfig config;
  config.encoder.context_style = style;
  config.encoder.positions = positions;
  return config;
}

/// Returns the left context, chunk and right context of the window that a context means.
Context window(Style style, const Context& context, Positions positions = Positions::relative) {
  ModelConfig config = model_of(style, positions);
  select_context(config, context, "somewhere");
  EXPECT_EQ(config.encoder.context, context);
  return {config.encoder.left_context, config.encoder.chunk, config.encoder.right_context};
}

TEST(SelectContext, EveryStyleInItsOwnWords) {
  EXPECT_EQ(window(Style::regular, {-1, -1}), (Context{-1, 1, -1}));
  EXPECT_EQ(window(Style::regular, {128, 64}), (Context{128, 1, 64}));
  EXPECT_EQ(window(Style::regular, {-1, 0}), (Context{-1, 1, 0}));
  EXPECT_EQ(window(Style::chunked, {70, 13}), (Context{70, 14, 0}));
  EXPECT_EQ(window(Style::chunked, {70, 0}), (Context{70, 1, 0}));
  EXPECT_EQ(window(Style::chunked, {70, 16}), (Context{68, 17, 0}));   // whole chunks
  EXPECT_EQ(window(Style::chunked, {-1, 1}), (Context{20000, 2, 0}));  // NeMo's "all"
  EXPECT_EQ(window(Style::chunked, {30, -1}), (Context{30, 1, -1}));
  EXPECT_EQ(window(Style::chunked_with_right, {-1, -1, -1}), (Context{-1, 1, -1}));
  EXPECT_EQ(window(Style::chunked_with_right, {70, 7, 3}), (Context{70, 7, 3}));
  EXPECT_EQ(window(Style::chunked, {16, 8}, Positions::local), (Context{16, 1, 8}));
}

TEST(SelectContext, AnotherOneLeavesNothingOfTheFirst) {
  ModelConfig config = model_of(Style::chunked);
  select_context(config, {70, 13}, "");
  select_context(config, {70, -1}, "");
  EXPECT_EQ(config.encoder.chunk, 1);
  EXPECT_EQ(config.encoder.left_context, 70);
}

TEST(SelectContext, WhatIsNoContextIsAnError) {
  for (const auto& [style, positions, context] : std::vector<std::tuple<Style, Positions, Context>>{
           {Style::regular, Positions::relative, {}},
           {Style::regular, Positions::relative, {1}},
           {Style::regular, Positions::relative, {1, 2, 3}},
           {Style::regular, Positions::relative, {-2, 1}},
           {Style::chunked, Positions::relative, {4, -2}},
           {Style::chunked, Positions::relative, {4, int64_t{1} << 62}},
           {Style::chunked_with_right, Positions::relative, {70, 13}},
           {Style::chunked_with_right, Positions::relative, {-1, 2, 3}},
           {Style::chunked_with_right, Positions::relative, {4, 0, 3}},
           {Style::regular, Positions::local, {-1, -1}},
           {Style::regular, Positions::local, {0, 0}},
           {Style::regular, Positions::local, {8, -1}}}) {
    ModelConfig config = model_of(style, positions);
    const Context before = config.encoder.context;
    EXPECT_THROW(select_context(config, context, "somewhere"), UserError);
    EXPECT_EQ(config.encoder.context, before);
  }
}

}  // namespace
}  // namespace rtfx
