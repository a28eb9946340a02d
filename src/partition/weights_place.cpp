// SPDX-License-Identifier: Apache-2.0
#include "weights_place.h"

#include "optimizer_place.h"
#include "widest_gap.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace trireme::partition {
namespace {

/// Plans that are made between none of the layers streamed and all of them.
constexpr int kLooks = 5;
constexpr const char* kOnDevice = "frozen weights on the device";

bool can_stream(const chain::RankSpec& rank) {
  return rank.in > BytesPerSecond(0) && rank.host + rank.disk > Bytes(0);
}

bool has_lanes(const Question& question) {
  const auto end = question.platform.ranks.begin() + question.stages;
  return std::any_of(question.platform.ranks.begin(), end, can_stream);
}

/// Plans by how many layers are streamed.
class Search {
 public:
  Search(const Question& question, const std::function<Answer(const Question&)>& plan)
      : question_(question),
        optimizer_(question.optimizer_copies),
        all_(static_cast<int>(all_to_stream(question.chain).size())),
        plan_(plan) {}

  Answer best();

 private:
  struct Looked {
    int layers;
    Answer answer;

    const plan::Plan* plan() const { return std::get_if<plan::Plan>(&answer); }
    Seconds step() const { return plan() == nullptr ? kAnyTime : plan()->step; }
  };
  const Looked& look(int layers);
  void refine();
  const Looked& fastest() const;
  /// With the optimiser's state where it is best.
  Answer settled(const Looked& best);

  Question question_;
  std::optional<Seconds> optimizer_;
  int all_;
  const std::function<Answer(const Question&)>& plan_;
  std::vector<Looked> looked_;
};

const Search::Looked& Search::look(int layers) {
  question_.streamed = layers_to_stream(question_.chain, layers);
  return looked_.emplace_back(Looked{layers, plan_(question_)});
}

Answer Search::best() {
  // Beside frozen weights there is little other state: one number at a time.
  question_.optimizer_copies = optimizer_.value_or(Seconds(0));
  const plan::Plan* const resident = look(0).plan();
  if (resident != nullptr && keeps_everything(*resident)) return settled(looked_.front());
  if (look(all_).plan() == nullptr && !optimizer_) {
    question_.optimizer_copies = kAnyTime;
    looked_.pop_back();
    look(all_);
  }
  if (looked_.back().plan() != nullptr) refine();
  return settled(fastest());
}

void Search::refine() {
  for (int k = 0; k < kLooks; ++k) {
    std::vector<LookedAt> steps;
    for (const Looked& one : looked_) steps.push_back({double(one.layers), one.step()});
    const auto middle = middle_beside_fastest(std::move(steps), 2);
    if (!middle) return;
    look(static_cast<int>(std::ceil(*middle)));
  }
}

const Search::Looked& Search::fastest() const {
  const auto best =
      std::min_element(looked_.begin(), looked_.end(),
                       [](const Looked& a, const Looked& b) { return a.step() < b.step(); });
  if (best->plan() != nullptr) return *best;
  // Of plans that lack something, the one that streams most lacks least.
  return *std::max_element(looked_.begin(), looked_.end(),
                           [](const Looked& a, const Looked& b) { return a.layers < b.layers; });
}

Answer Search::settled(const Looked& best) {
  Answer answer = best.answer;
  if (!optimizer_) {
    question_.optimizer_copies = std::nullopt;
    question_.streamed = layers_to_stream(question_.chain, best.layers);
    answer = plan_(question_);
  }
  auto* const chosen = std::get_if<plan::Plan>(&answer);
  if (chosen == nullptr || plan::streamed_weights(*chosen, question_.chain).empty()) return answer;
  plan::Alternative other{.policy = kOnDevice, .step = {}, .infeasible = {}};
  const Looked& resident = looked_.front();
  if (resident.plan() != nullptr)
    other.step = resident.step();
  else
    other.infeasible = std::get<plan::Infeasible>(resident.answer);
  chosen->alternatives.push_back(std::move(other));
  return answer;
}

/// Most bytes in the outer tier of a rank: weights and the optimiser's state.
Bytes most_outside(const chain::Chain& chain, const plan::Plan& plan) {
  const std::vector<Bytes> state = plan::optimizer_away(plan);
  Bytes most;
  for (std::size_t rank = 0; rank < state.size(); ++rank)
    most =
        std::max(most, state[rank] + plan::streamed_weights(plan, chain, static_cast<int>(rank)));
  return with_margin(most);
}

/// "; it would fit with so much host memory"; empty where that would not be enough.
std::string advice(Question question, const std::function<Answer(const Question&)>& plan) {
  question.streamed = all_to_stream(question.chain);
  const Bytes all = with_margin(streamed_bytes(question.chain, *question.streamed).outside +
                                chain::optimizer_bytes(question.chain, 1, question.chain.length()));
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.host = std::max(rank.host, all);
    if (rank.in == BytesPerSecond(0)) rank.out = rank.in = BytesPerSecond(1e9);
  }
  const bool may_move = question.optimizer_copies != Seconds(0);
  const auto said = [&](Seconds optimizer_copies, const char* of_what) -> std::string {
    question.optimizer_copies = optimizer_copies;
    const Answer answer = plan(question);
    const auto* const found = std::get_if<plan::Plan>(&answer);
    if (found == nullptr) return "";
    const Bytes most = most_outside(question.chain, *found);
    return concat("; it would fit with ", to_text(most), " (", most.count(),
                  " bytes) of host memory for ", of_what);
  };
  const std::string alone = said(Seconds(0), "frozen weights");
  if (!alone.empty() || !may_move) return alone;
  return said(kAnyTime, "frozen weights and the optimizer's state");
}

}  // namespace

std::vector<int> all_to_stream(const chain::Chain& chain) {
  std::vector<int> layers;
  for (int i = 1; i <= chain.length(); ++i)
    if (chain.layer(i).frozen > Bytes(0)) layers.push_back(i);
  return layers;
}

std::optional<std::vector<int>> streamed_layers_of(const std::string& place,
                                                   const chain::Chain& chain) {
  if (place == "auto") return std::nullopt;
  ensure(place == "device" || place == "outer", concat("'", place, "' is a place of weights"));
  return place == "outer" ? all_to_stream(chain) : std::vector<int>{};
}

std::vector<int> streamed_of(const Question& question, int rank, const LayerRuns& runs) {
  const chain::RankSpec& spec = question.platform.ranks[static_cast<std::size_t>(rank)];
  if (!question.streamed || question.streamed->empty() || !can_stream(spec)) return {};
  // As with_margin() has it.
  Bytes room = (spec.host + spec.disk) / 16 * 15;
  std::vector<int> layers;
  for (const auto& [first, last] : runs) {
    auto layer = std::lower_bound(question.streamed->begin(), question.streamed->end(), first);
    for (; layer != question.streamed->end() && *layer <= last; ++layer) {
      const Bytes size = question.chain.layer(*layer).frozen;
      if (size > room) continue;
      room -= size;
      layers.push_back(*layer);
    }
  }
  return streamed_bytes(question.chain, layers).saved > Bytes(0) ? layers : std::vector<int>{};
}

Bytes saved_bytes(const chain::Chain& chain, const std::vector<int>& layers) {
  return streamed_bytes(chain, layers).saved;
}

StreamedBytes streamed_bytes(const chain::Chain& chain, const std::vector<int>& layers) {
  std::vector<Bytes> sizes;
  Bytes all;
  for (const int layer : layers) {
    sizes.push_back(chain.layer(layer).frozen);
    all += sizes.back();
  }
  return {.outside = all, .saved = all - chain::weights_window(sizes)};
}

std::vector<int> layers_to_stream(const chain::Chain& chain, int count) {
  std::vector<int> layers = all_to_stream(chain);
  std::stable_sort(layers.begin(), layers.end(),
                   [&](int a, int b) { return chain.layer(a).frozen < chain.layer(b).frozen; });
  const auto size_at = [&](auto place) { return chain.layer(*place).frozen; };
  auto begin = layers.begin();
  std::vector<int> chosen;
  while (begin != layers.end() && count > 0) {
    const auto end = std::find_if(begin, layers.end(), [&](int layer) {
      return chain.layer(layer).frozen != size_at(begin);
    });
    const auto equal = static_cast<std::size_t>(end - begin);
    const std::size_t taken = std::min(equal, static_cast<std::size_t>(count));
    for (std::size_t k = 0; k < taken; ++k)
      chosen.push_back(begin[static_cast<std::ptrdiff_t>((2 * k + 1) * equal / (2 * taken))]);
    count -= static_cast<int>(taken);
    begin = end;
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Answer with_best_streams(const Question& question,
                         const std::function<Answer(const Question&)>& plan) {
  Question asked = question;
  asked.streamed = std::vector<int>{};
  const bool has_frozen = !all_to_stream(question.chain).empty();
  Answer answer = has_frozen && has_lanes(question) ? Search(question, plan).best() : plan(asked);
  auto* const infeasible = std::get_if<plan::Infeasible>(&answer);
  if (infeasible != nullptr && has_frozen) infeasible->where += advice(question, plan);
  return answer;
}

}  // namespace trireme::partition
