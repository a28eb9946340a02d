// Equal layers that take 1 : 1 : 1 or 1 : 1.09 : 0.91 on a rank (forward, gradients of inputs, of
// weights) with free links, and gpt2-1.5b on eight H100s. A unit of memory is what a rank keeps of
// one micro-batch; 0.3 units on top are for outputs. Demanded: what the best known schedule, or
// Trireme with one chunk on every rank, takes.
// SPDX-License-Identifier: Apache-2.0
#include "schedules.h"

#include "corpus.h"

#include "trireme/chain/platform.h"
#include "trireme/core/text.h"
#include "trireme/partition/planner.h"
#include "trireme/partition/tried.h"
#include "trireme/schedule/named.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

constexpr double kUnit = 1e9;

struct Case {
  std::string name;
  Question question;
  double demanded = 0;  ///< seconds
};

/// Seconds of a rank's passes.
struct Passes {
  double forward = 1, input = 1, weights = 1;
};

chain::Chain equal_layers(int layers, int ranks, Passes passes) {
  const double share = static_cast<double>(ranks) / layers;
  chain::LayerCost layer;
  layer.forward = Seconds(passes.forward * share);
  layer.backward = Seconds((passes.input + passes.weights) * share);
  layer.tape = Bytes(static_cast<std::int64_t>(kUnit * share));
  layer.output = layer.backward_transient = Bytes(10'000'000);
  layer.split = chain::SplitBackward{.weights = Seconds(passes.weights * share),
                                     .pending = layer.tape,
                                     .input_transient = layer.output,
                                     .weights_transient = {}};
  return {.name = "equal layers",
          .input = layer.output,
          .layers = std::vector(static_cast<std::size_t>(layers), layer)};
}

Question question_of(chain::Chain chain, chain::Platform platform, int ranks, int micro_batches,
                     Bytes memory) {
  Question question;
  question.chain = std::move(chain);
  question.platform = std::move(platform);
  for (chain::RankSpec& rank : question.platform.ranks) rank.memory = memory;
  question.stages = ranks;
  question.micro_batches = micro_batches;
  open_everything(question);
  set_schedule(question, "auto");
  return question;
}

Case equal_case(int ranks, int micro_batches, Passes passes, double units, double demanded) {
  const Bytes memory(static_cast<std::int64_t>(units * kUnit));
  return {concat(4 * ranks, " layers on ", ranks, ", ", micro_batches,
                 " micro-batches, 1:", passes.input, ":", passes.weights, ", ", units, " units"),
          question_of(equal_layers(4 * ranks, ranks, passes),
                      chain::uniform_platform(ranks, memory), ranks, micro_batches, memory),
          demanded};
}

std::vector<Case> cases(const std::filesystem::path& configs) {
  constexpr Passes kEqual, kUsual{1, 1.09, 0.91};
  std::vector<Case> all{equal_case(8, 24, kEqual, 8.3, 74.3),  equal_case(8, 24, kEqual, 6.3, 77.0),
                        equal_case(8, 24, kEqual, 5.3, 79.5),  equal_case(8, 24, kEqual, 4.3, 82.5),
                        equal_case(8, 24, kEqual, 3.3, 95),    equal_case(8, 24, kUsual, 8.3, 75.2),
                        equal_case(8, 24, kUsual, 6.3, 78.0),  equal_case(8, 24, kUsual, 4.3, 85.5),
                        equal_case(8, 24, kUsual, 3.3, 98.88), equal_case(4, 8, kEqual, 4.3, 25.5),
                        equal_case(4, 8, kEqual, 2.3, 29.5),   equal_case(4, 24, kEqual, 4.3, 73.5),
                        equal_case(4, 24, kEqual, 2.3, 77.5)};
  const chain::Chain gpt = chain::load_chain(configs / "chains/gpt2-1.5b.yaml");
  const chain::Platform cards = chain::load_platform(configs / "platforms/h100-80-nvlink-8.yaml");
  for (const auto& [memory, demanded] :
       {std::pair(76, 0.755), {24, 0.785}, {18, 0.840}, {14, 0.907}, {12, 0.938}})
    all.push_back({concat("gpt2-1.5b, 8 H100s, ", memory, " GB"),
                   question_of(gpt, cards, 8, 24, Bytes(std::int64_t{memory} * 1'000'000'000)),
                   demanded});
  return all;
}

/// The fastest of the plan's alternatives that are named schedules.
std::string best_listed(const plan::Plan& plan) {
  const plan::Alternative* best = nullptr;
  for (const plan::Alternative& other : plan.alternatives)
    if (schedule::find_schedule(other.policy) != nullptr && other.step &&
        (best == nullptr || *other.step < *best->step))
      best = &other;
  return best == nullptr ? "-" : concat(best->policy, " ", to_text(best->step->count()));
}

std::string rounded(double value) {
  return to_text(std::round(value * 1e4) / 1e4);
}

/// Whether a plan with one replica is the same on both.
bool are_alike(const chain::Platform& one, const chain::Platform& other) {
  const auto count = static_cast<int>(one.ranks.size());
  if (one.ranks != other.ranks || one.channel_buffers != other.channel_buffers) return false;
  for (int from = 0; from < count; ++from)
    for (int to = from + 1; to < count; ++to)
      if (one.link(from, to) != other.link(from, to)) return false;
  return true;
}

/// The first ranks, up to four, of all platforms, without energy; no two are alike.
std::vector<std::pair<std::string, chain::Platform>> small_platforms(
    const std::filesystem::path& folder) {
  std::vector<std::pair<std::string, chain::Platform>> platforms;
  for (const std::filesystem::path& file : files_in(folder)) {
    const chain::Platform whole = chain::load_platform(file);
    if (whole.ranks.size() < 2) continue;  // a small device, for graphs
    chain::Platform few =
        chain::first_ranks(whole, std::min(4, static_cast<int>(whole.ranks.size())));
    for (chain::RankSpec& rank : few.ranks) {
      rank.power = {};
      rank.flops_energy = {};
      rank.clocks.clear();
    }
    const bool is_new = std::ranges::none_of(
        platforms, [&](const auto& other) { return are_alike(other.second, few); });
    if (is_new) platforms.emplace_back(file.stem().string(), std::move(few));
  }
  return platforms;
}

/// Seconds of a step; none where nothing fits or the question is refused.
std::optional<double> step_of(const Question& question) {
  const Tried tried = try_to("", [&] { return plan(question); });
  if (tried.plan() == nullptr) return std::nullopt;
  return tried.plan()->step.count();
}

struct NamedStep {
  std::string name = "none";
  std::optional<double> step;
};

NamedStep best_named(Question question) {
  NamedStep best;
  for (const std::string& name : schedule::schedule_names()) {
    set_schedule(question, name);
    const std::optional<double> step = step_of(question);
    if (step && (!best.step || *step < *best.step)) best = {name, step};
  }
  return best;
}

/// Steps of `auto` relative to those of something else.
class Ratios {
 public:
  explicit Ratios(std::string other) : other_(std::move(other)) {}

  void add(std::optional<double> found, std::optional<double> other) {
    if (found && other) ratios_.push_back(*found / *other);
    only_found_ += found && !other ? 1 : 0;
    only_other_ += !found && other ? 1 : 0;
  }
  /// Prints the distribution; returns whether `auto` was never slower and always found a plan.
  bool print() {
    std::ranges::sort(ratios_);
    const auto slower_than = [&](double bound) {
      return std::ranges::count_if(ratios_, [&](double ratio) { return ratio > bound; });
    };
    const auto slower = slower_than(1 + 1e-9);
    std::cout << "auto / " << other_ << ", " << ratios_.size() << " questions:";
    for (const int percent : {0, 10, 25, 50, 75, 90, 100}) {
      if (ratios_.empty()) break;
      std::cout << " " << percent << " % "
                << rounded(ratios_[(ratios_.size() - 1) * static_cast<std::size_t>(percent) / 100]);
    }
    std::cout << "; slower " << slower << ", by more than 1 % " << slower_than(1.01)
              << "; a plan of auto alone " << only_found_ << ", of the other alone " << only_other_
              << "\n";
    return slower == 0 && only_other_ == 0;
  }

 private:
  std::string other_;
  std::vector<double> ratios_;
  int only_found_ = 0, only_other_ = 0;
};

}  // namespace

int compare_schedules(const std::filesystem::path& configs) {
  std::cout
      << "| case | demanded | auto | schedule | bound of its order | best named | planned in |"
         "\n|---|--:|--:|---|--:|---|--:|"
      << std::endl;
  int missed = 0;
  for (const Case& one : cases(configs)) {
    const auto begin = std::chrono::steady_clock::now();
    const Answer answer = plan(one.question);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const auto* const found = std::get_if<plan::Plan>(&answer);
    const double step = found != nullptr ? found->step.count() : 0;
    const bool is_met = found != nullptr && step <= one.demanded * (1 + 1e-3);
    missed += is_met ? 0 : 1;
    std::cout << "| " << one.name << " | " << one.demanded << " | "
              << (found != nullptr ? rounded(step) : "none") << (is_met ? "" : " MISSED") << " | "
              << (found != nullptr ? found->schedule : "") << " | "
              << (found != nullptr && found->order_bound > Seconds(0)
                      ? rounded(found->order_bound.count())
                      : "")
              << " | " << (found != nullptr ? best_listed(*found) : "") << " | "
              << std::round(took.count() * 10) / 10 << " s |" << std::endl;
  }
  std::cout << missed << " missed\n";
  return missed == 0 ? 0 : 1;
}

int compare_named(const std::filesystem::path& configs, const std::string& part) {
  const auto text = [](std::optional<double> step) { return step ? rounded(*step) : "-"; };
  Ratios one_chunk("one chunk"), named("best named");
  std::cout << "| case | auto | one chunk | best named |\n|---|--:|--:|---|" << std::endl;
  const auto platforms = small_platforms(configs / "platforms");
  for (const std::filesystem::path& file : files_in(configs / "chains")) {
    if (file.stem().string().find(part) == std::string::npos) continue;
    const chain::Chain chain = chain::load_chain(file);
    for (const auto& [name, platform] : platforms) {
      for (const Memory& memory : kMemories) {
        const int ranks = static_cast<int>(platform.ranks.size());
        Question question = question_of(chain, platform, ranks, 8, budget(chain, ranks, memory));
        const std::optional<double> found = step_of(question);
        question.chunks = "none";
        const std::optional<double> one = step_of(question);
        const NamedStep best = best_named(question);
        one_chunk.add(found, one);
        named.add(found, best.step);
        std::cout << "| " << file.stem().string() << " on " << name << ", " << memory.name << " | "
                  << text(found) << " | " << text(one) << " | " << text(best.step) << " "
                  << best.name << " |" << std::endl;
      }
    }
  }
  const bool beats_one = one_chunk.print(), beats_named = named.print();
  return beats_one && beats_named ? 0 : 1;
}

}  // namespace trireme::partition
