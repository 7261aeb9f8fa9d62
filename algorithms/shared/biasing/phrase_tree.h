// An automaton of phrases that scores every token of a text. It is a prefix tree with failure links
// (Aho, Corasick, "Efficient String Matching", CACM 1975) in the form of NgramArrays. NeMo's GPU-PB
// has this form too (Andrusenko et al., "TurboBias: Universal ASR Context-Biasing powered by
// GPU-accelerated Phrase-Boosting Tree", 2025).
//
// A state is the longest suffix of the text that is a prefix of a phrase. The token at depth d of
// phrase p scores
//
//   s_p(1) = weight of p,    s_p(d) = weight of p * depth_scaling + ln d   for d > 1
//
// A token of the tree scores t(v), the largest s_p of the phrases through it. N(v) is the sum of t
// from the root to v, and f(v) is the longest proper suffix of v that is a state:
//
//   score of a token k in v:  t(child of v by k)         where v has one
//                             b(v) + score of k in f(v)  otherwise; at the root `unknown`
//
// The backoff score of a state is b(v) = pending(f(v)) - pending(v), with pending(v) = N(v) -
// earned(v). It takes back the scores that a begun phrase received in advance, when the phrase does
// not continue. The scores of whole phrases inside v stay: earned(v) is the largest sum of N over
// whole phrases in v that do not overlap. At the end of a text, -pending(v) is added.
//
// Whole phrases that overlap both keep their scores, unless v holds both and its phrase breaks off.
// Then only those that earned(v) chose keep them. A phrase that goes on from f(v) then lacks
// earned(f(v)), because b(v) takes it back even where the chosen phrases do not include it.
//
// With "compatibility": "nemo", the backoff score is b(v) = N(f(v)) - N(v), and 0 where v is a
// whole phrase. The values of t and N are then those that NeMo 2.7.3 leaves. Where a new phrase
// shares a token with an earlier one, t of this token becomes the new phrase's weight if that is
// larger than the old value. N is then computed again along the new phrase alone. Tokens of other
// phrases behind the shared one keep their N. Nothing is added at the end of a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rtfx {

struct PhraseTokens {
  std::vector<int32_t> tokens;  // one at least
  double weight = 1;
};

struct TreeRules {
  double depth_scaling = 2;
  double unknown = 0;  // score of a token that begins no phrase, where none has begun
  double scale = 1;    // factor of all scores
  bool nemo = false;
};

/// State 0 is the root. States are numbered by depth, then by the state they come from (in the
/// order in which phrases made those), then by token: as NeMo does it. The arcs of a state also
/// hold what its failure links lead to, except the root's arcs. So no lookup goes further than from
/// a state to the root. The arcs are sorted by token.
struct PhraseTree {
  std::vector<int32_t> first_arc;  // [S+1]
  std::vector<int32_t> arc_token, arc_to;
  std::vector<float> arc_score;
  /// [S] score that is added to the root's score of a token for which a state has no arc. For the
  /// root itself, it is the score of unknown tokens.
  std::vector<float> to_root;
  std::vector<float> end;  // [S] score that is added at the end of a text

  int64_t states() const { return static_cast<int64_t>(end.size()); }
};

/// Makes the tree of `phrases`. Phrases may be equal, begin with another, or hold it. Tokens are
/// not negative.
PhraseTree make_phrase_tree(const std::vector<PhraseTokens>& phrases, const TreeRules& rules);

}  // namespace rtfx
