#include "algorithms/shared/wfst/composition.h"

// The algorithms are called through fst::script, where the library has them compiled. As templates,
// they would take a minute of compile time.
#include <fst/arc-map.h>
#include <fst/arcsort.h>
#include <fst/encode.h>
#include <fst/script/compose.h>
#include <fst/script/determinize.h>
#include <fst/script/minimize.h>
#include <fst/vector-fst.h>

#include <stdexcept>

namespace rtfx {
namespace {

using fst::LogArc;
using fst::StdArc;
using fst::script::VectorFstClass;
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

TransducerArcs from_fst(const fst::ExpandedFst<StdArc>& f) {
  // OpenFst reports failure through a property of its result.
  if (f.Properties(fst::kError, false)) throw std::logic_error("OpenFst failed; its log says why");
  TransducerArcs t;
  t.states = f.NumStates();
  t.start = f.Start() == fst::kNoStateId ? 0 : f.Start();
  for (int32_t s = 0; s < t.states; ++s) {
    for (fst::ArcIterator<fst::Fst<StdArc>> it(f, s); !it.Done(); it.Next()) {
      const StdArc& a = it.Value();
      t.arcs.push_back({s, a.nextstate, a.ilabel, a.olabel, a.weight.Value()});
    }
    if (f.Final(s) != StdArc::Weight::Zero()) t.finals.emplace_back(s, f.Final(s).Value());
  }
  return t;
}

/// Determinises in the log semiring.
StdFst determinized(const TransducerArcs& t) {
  LogFst log;
  fst::ArcMap(to_fst(t), &log, fst::WeightConvertMapper<StdArc, LogArc>());
  const auto zero = fst::script::WeightClass::Zero(LogArc::Weight::Type());
  VectorFstClass result(LogArc::Type());
  fst::script::Determinize(VectorFstClass(log), &result,
                           fst::script::DeterminizeOptions(fst::kDelta, zero));
  StdFst tropical;
  fst::ArcMap(*result.GetFst<LogArc>(), &tropical, fst::WeightConvertMapper<LogArc, StdArc>());
  return tropical;
}

}  // namespace

TransducerArcs compose(const TransducerArcs& left, const TransducerArcs& right) {
  StdFst a = to_fst(left), b = to_fst(right);
  fst::ArcSort(&a, fst::OLabelCompare<StdArc>());
  fst::ArcSort(&b, fst::ILabelCompare<StdArc>());
  VectorFstClass result(StdArc::Type());
  fst::script::Compose(VectorFstClass(a), VectorFstClass(b), &result);
  return from_fst(*result.GetMutableFst<StdArc>());
}

TransducerArcs determinize_and_minimize(const TransducerArcs& t) {
  StdFst result = determinized(t);
  // States are equal if their arcs are, including the costs. So both become part of the label.
  fst::ArcMap(&result, fst::QuantizeMapper<StdArc>());
  fst::EncodeMapper<StdArc> labels(fst::kEncodeLabels | fst::kEncodeWeights, fst::ENCODE);
  fst::Encode(&result, &labels);
  VectorFstClass minimized(result);
  result = StdFst();  // otherwise Minimize would work on a copy
  fst::script::Minimize(&minimized);
  fst::MutableFst<StdArc>* const least = minimized.GetMutableFst<StdArc>();
  fst::Decode(least, labels);
  fst::ArcSort(least, fst::ILabelCompare<StdArc>());
  return from_fst(*least);
}

}  // namespace rtfx
