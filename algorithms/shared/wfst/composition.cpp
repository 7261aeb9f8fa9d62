#include "algorithms/shared/wfst/composition.h"

#include <fst/fstlib.h>

#include <memory>
#include <stdexcept>

namespace rtfx {
namespace {

using fst::LogArc;
using fst::StdArc;
using StdFst = fst::VectorFst<StdArc>;
using LogFst = fst::VectorFst<LogArc>;

StdFst to_fst(const TransducerArcs& t) {
  FLAGS_fst_error_fatal = false;  // errors are properties of results
  StdFst f;
  for (int32_t s = 0; s < t.states; ++s) f.AddState();
  if (t.states > 0) f.SetStart(t.start);
  for (const auto& a : t.arcs) f.AddArc(a.from, StdArc(a.input, a.output, a.cost, a.to));
  for (const auto& [state, cost] : t.finals) f.SetFinal(state, cost);
  return f;
}

TransducerArcs from_fst(const StdFst& f) {
  // OpenFst reports failure through a property of its result.
  if (f.Properties(fst::kError, false)) throw std::logic_error("OpenFst failed; its log says why");
  TransducerArcs t;
  t.states = f.NumStates();
  t.start = f.Start() == fst::kNoStateId ? 0 : f.Start();
  for (int32_t s = 0; s < t.states; ++s) {
    for (fst::ArcIterator<StdFst> it(f, s); !it.Done(); it.Next()) {
      const StdArc& a = it.Value();
      t.arcs.push_back({s, a.nextstate, a.ilabel, a.olabel, a.weight.Value()});
    }
    if (f.Final(s) != StdArc::Weight::Zero()) t.finals.emplace_back(s, f.Final(s).Value());
  }
  return t;
}

}  // namespace

TransducerArcs compose(const TransducerArcs& left, const TransducerArcs& right) {
  StdFst a = to_fst(left), b = to_fst(right), result;
  fst::ArcSort(&a, fst::OLabelCompare<StdArc>());
  fst::ArcSort(&b, fst::ILabelCompare<StdArc>());
  fst::Compose(a, b, &result);
  return from_fst(result);
}

TransducerArcs determinize_and_minimize(const TransducerArcs& t) {
  LogFst log, determinized;
  fst::ArcMap(to_fst(t), &log, fst::WeightConvertMapper<StdArc, LogArc>());
  fst::Determinize(log, &determinized);
  StdFst result;
  fst::ArcMap(determinized, &result, fst::WeightConvertMapper<LogArc, StdArc>());
  determinized = log = LogFst();

  // States are equal where their arcs are, costs and all, so both become part of the label.
  fst::ArcMap(&result, fst::QuantizeMapper<StdArc>());
  fst::EncodeMapper<StdArc> labels(fst::kEncodeLabels | fst::kEncodeWeights, fst::ENCODE);
  fst::Encode(&result, &labels);
  fst::Minimize(&result);
  fst::Decode(&result, labels);
  fst::ArcSort(&result, fst::ILabelCompare<StdArc>());
  return from_fst(result);
}

TransducerArcs read_openfst(const std::string& path) {
  const std::unique_ptr<const fst::Fst<StdArc>> f(fst::Fst<StdArc>::Read(path));
  if (!f) throw std::runtime_error("no file of OpenFst with tropical weights");
  return from_fst(StdFst(*f));
}

}  // namespace rtfx
