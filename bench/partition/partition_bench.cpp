// What the joint planner gains, how often it is optimal, and how long it takes.
//
//   partition_bench scaling [FILE]   seconds and memory against layers and stages; as JSON to FILE,
//                                    which plot_growth.py draws
//   partition_bench gains CONFIGS [CHAIN]   gain over the best of the other policies, on the chains
//                                    (those whose name has CHAIN in it) and platforms in that
//                                    folder
//   partition_bench random COUNT     larger random pipelines: budgets kept, alternatives beaten
//   partition_bench optimum COUNT    small random pipelines against every cut and every program
//   partition_bench corpus CONFIGS FILE [PART]   plans of all chains on all platforms in that
//                                    folder (questions whose name has PART in it): digest, step and
//                                    seconds of planning, as a table to FILE
//   partition_bench compare FILE FILE       two such tables
//   partition_bench schedules CONFIGS       several chunks on a rank: steps of `auto` and of named
//                                    schedules at several budgets, beside the bounds of their
//                                    orders
//   partition_bench named CONFIGS [CHAIN]   `auto` beside one chunk on every rank and every named
//                                    schedule, on all platforms and budgets
//
// SPDX-License-Identifier: Apache-2.0
#include "corpus.h"
#include "partition/every_cut.h"
#include "partition/instances.h"
#include "schedules.h"

#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/partition/planner.h"
#include "trireme/simulate/validate.h"

#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <iostream>

namespace trireme::partition {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string percent(double share) {
  return concat(to_text(std::round(share * 1e4) / 1e2), " %");
}

/// A transformer of equal blocks between an embedding and a head; with `unlike`, no two layers are
/// the same.
chain::Chain blocks(int count, bool unlike) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> factor(0.5, 1.5);
  chain::Chain chain{.name = "blocks", .input = Bytes(1 << 14), .layers = {}};
  for (int i = 0; i < count + 2; ++i) {
    const double by = unlike ? factor(random) : 1;
    const auto bytes = [&](double mib) {
      return Bytes(static_cast<std::int64_t>(mib * by * (1 << 20)));
    };
    chain::LayerCost layer;
    layer.forward = Seconds(2e-3 * by);
    layer.backward = Seconds(4e-3 * by);
    layer.output = bytes(24);
    layer.tape = bytes(400);
    layer.forward_transient = layer.tape_transient = bytes(80);
    layer.backward_transient = bytes(160);
    layer.parameters = bytes(50);
    layer.gradients = bytes(50);
    layer.optimizer = bytes(100);
    if (i == 0 || i == count + 1) layer.parameters = bytes(200);
    chain.layers.push_back(layer);
  }
  return chain;
}

/// Budgets at which about half of the activations of the first stage can be kept.
Question tight(chain::Chain chain, int stages, int micro_batches) {
  Question question;
  const Bytes fixed = static_bytes(chain, 1, chain.length()) / stages;
  Bytes tapes;
  for (const chain::LayerCost& layer : chain.layers) tapes += layer.tape;
  question.chain = std::move(chain);
  question.stages = stages;
  question.micro_batches = micro_batches;
  question.platform =
      chain::uniform_platform(stages, fixed * 11 / 10 + tapes / 2 + Bytes(std::int64_t{1} << 29));
  question.platform.default_link = {BytesPerSecond(50e9), Seconds(5e-6)};
  question.platform.channel_buffers = 1;
  return question;
}

double most_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

bool is_ours(const std::string& policy) {
  return policy.starts_with("joint") || policy.starts_with("madpipe");
}

/// Of the alternatives whose policy is `counted`; infinity if none of them fits.
template <class Counted>
double best_step(const plan::Plan& plan, Counted&& counted) {
  double best = std::numeric_limits<double>::infinity();
  for (const plan::Alternative& alternative : plan.alternatives) {
    if (alternative.step && counted(alternative.policy))
      best = std::min(best, alternative.step->count());
  }
  return best;
}

struct ScalingCase {
  int layers, stages;
  bool unlike, copies;
};

std::vector<ScalingCase> scaling_cases() {
  std::vector<ScalingCase> cases;
  for (const bool copies : {false, true}) {
    for (const bool unlike : {false, true}) {
      for (const auto& [layers, stages] :
           {std::pair{24, 4}, {48, 8}, {96, 16}, {192, 32}, {400, 64}})
        cases.push_back({layers, stages, unlike, copies});
    }
  }
  return cases;
}

int scaling(const std::string& file) {
  std::vector<std::vector<std::string>> rows{{"layers", "unlike", "copies", "stages",
                                              "micro-batches", "planned in s", "so far MiB",
                                              "step s", "best other"}};
  std::string json;
  for (const ScalingCase& one : scaling_cases()) {
    Question question = tight(blocks(one.layers, one.unlike), one.stages, 4 * one.stages);
    for (chain::RankSpec& rank : question.platform.ranks) {
      if (!one.copies) continue;
      rank.host = Bytes(std::int64_t{1} << 37);
      rank.out = rank.in = BytesPerSecond(25e9);
    }
    const double begin = now();
    const Answer answer = plan(question);
    const double taken = now() - begin;
    const auto* found = std::get_if<plan::Plan>(&answer);
    const double other = found == nullptr ? 0 : best_step(*found, [](const std::string& name) {
      return !is_ours(name);
    });
    rows.push_back({concat(question.chain.length()), one.unlike ? "yes" : "no",
                    one.copies ? "yes" : "no", concat(one.stages), concat(question.micro_batches),
                    to_text(std::round(taken * 100) / 100), to_text(std::round(most_mib())),
                    found == nullptr ? "-" : concat(found->step.count()),
                    found == nullptr ? "-" : percent(other / found->step.count() - 1)});
    std::cout << table({rows.front(), rows.back()}) << std::flush;
    json += concat(json.empty() ? "[" : ",", "\n  {\"layers\": ", question.chain.length(),
                   ", \"stages\": ", one.stages, ", \"unlike\": ", one.unlike ? "true" : "false",
                   ", \"copies\": ", one.copies ? "true" : "false", ", \"planned_s\": ", taken,
                   ", \"so_far_mib\": ", most_mib(), "}");
  }
  std::cout << "\n" << table(rows);
  if (!file.empty()) io::write_file(file, json + "\n]\n");
  return 0;
}

/// Counts over many questions.
struct Tally {
  int plans = 0, infeasible = 0, invalid = 0, beaten = 0, alone = 0, moving = 0, sharing = 0;
  std::vector<double> gains;  // best other step / step - 1
  std::vector<double> mixed;  // of plans with mixed programs: the best step without / step - 1
  double begin = now(), longest = 0;

  void add(const Question& question);
  void merge(const Tally& other);
  void print();
};

void Tally::merge(const Tally& other) {
  plans += other.plans;
  infeasible += other.infeasible;
  invalid += other.invalid;
  beaten += other.beaten;
  alone += other.alone;
  moving += other.moving;
  sharing += other.sharing;
  mixed.insert(mixed.end(), other.mixed.begin(), other.mixed.end());
  gains.insert(gains.end(), other.gains.begin(), other.gains.end());
  longest = std::max(longest, other.longest);
}

void Tally::add(const Question& question) {
  const double start = now();
  const Answer answer = plan(question);
  longest = std::max(longest, now() - start);
  const auto* found = std::get_if<plan::Plan>(&answer);
  if (found == nullptr) {
    ++infeasible;
    return;
  }
  ++plans;
  for (const plan::StagePlan& stage : found->stages) {
    if (stage.predicted.offloaded == Bytes(0)) continue;
    ++moving;
    break;
  }
  if (simulate::validate(plan::compile(*found, question.chain), setting_of(question, *found)))
    ++invalid;
  const auto simulation = simulated(question, *found, simulate::Detail::kSummary);
  bool over = false;
  for (std::size_t k = 0; k < simulation.ranks.size(); ++k) {
    const Bytes memory = question.platform.ranks[k].memory;
    over = over || (memory > Bytes(0) && simulation.ranks[k].peak.size > memory);
  }
  invalid += over ? 1 : 0;
  const double other = best_step(*found, [](const std::string& name) { return !is_ours(name); });
  const double any = best_step(*found, [](const std::string&) { return true; });
  if (any < found->step.count() * (1 - 1e-9)) ++beaten;
  sharing += schedule::shares_ranks(plan::placement(*found)) ? 1 : 0;
  if (plan::has_mixes(*found)) mixed.push_back(any / found->step.count() - 1);
  if (std::isinf(other)) {
    ++alone;
  } else {
    gains.push_back(other / found->step.count() - 1);
  }
}

void Tally::print() {
  std::sort(gains.begin(), gains.end());
  const auto at = [&](double share) {
    return gains.empty() ? std::string("-")
                         : percent(gains[static_cast<std::size_t>(
                               share * static_cast<double>(gains.size() - 1))]);
  };
  std::cout << "plans " << plans << ", infeasible " << infeasible << ", over a budget or not legal "
            << invalid << ", slower than an alternative " << beaten << ", nothing else fits "
            << alone << ", with copies " << moving << ", with several stages on a rank " << sharing
            << ", with mixed programs " << mixed.size();
  if (!mixed.empty()) {
    std::sort(mixed.begin(), mixed.end());
    std::cout << " (faster than without by " << percent(mixed[mixed.size() / 2])
              << " in the median, " << percent(mixed.back()) << " at most)";
  }
  std::cout << "\ngain over the best other policy: "
            << "least " << at(0) << ", 10th percentile " << at(0.1) << ", median " << at(0.5)
            << ", 90th " << at(0.9) << ", most " << at(1) << "\nall in " << now() - begin
            << " s, the longest " << longest << " s\n";
}

int random_pipelines(int count) {
  std::mt19937 random(77);
  Tally tally;
  for (int trial = 0; trial < count; ++trial) {
    tally.add(small_question(random, {.least_layers = 4,
                                      .most_layers = 16,
                                      .most_stages = 6,
                                      .most_micro_batches = 12,
                                      .copies = trial % 4 == 0}));
  }
  tally.print();
  return tally.invalid + tally.beaten == 0 ? 0 : 1;
}

/// All budgets times this is the least with which the policy runs.
double least_scale(Question question, const std::string& solver) {
  const chain::Platform platform = question.platform;
  for (chain::RankSpec& rank : question.platform.ranks)
    rank.memory = Bytes(std::max<std::int64_t>(1, rank.memory.count() / 1'000'000));
  question.solver = solver;
  const Answer answer = plan(question);
  const auto& why = std::get<plan::Infeasible>(answer);
  return why.least_budget / platform.ranks[static_cast<std::size_t>(why.rank)].memory;
}

/// Budgets between the least that works at all and what keep_all needs, the platform's own ratio
/// of memories kept.
void add_budgets(const Question& question, Tally& tally) {
  const double least = least_scale(question, "auto"), most = least_scale(question, "keep_all");
  for (const double share : {0.02, 0.1, 0.25, 0.5, 0.8}) {
    Question asked = question;
    const double scale = least + share * (most - least);
    for (chain::RankSpec& rank : asked.platform.ranks)
      rank.memory =
          Bytes(static_cast<std::int64_t>(scale * static_cast<double>(rank.memory.count())));
    tally.add(asked);
  }
}

int gains(const std::filesystem::path& configs, const std::string& only) {
  Tally all;
  for (const auto& chain_file : files_in(configs / "chains")) {
    if (chain_file.stem().string().find(only) == std::string::npos) continue;
    for (const auto& platform_file : files_in(configs / "platforms")) {
      Question question;
      question.splits_backward = false;  // as the alternatives' backwards are whole
      question.chain = chain::load_chain(chain_file);
      const chain::Platform platform = chain::load_platform(platform_file);
      if (platform.ranks.size() < 2) continue;  // a small device, for graphs
      Tally tally;
      for (int stages = 2; stages <= static_cast<int>(platform.ranks.size()); stages *= 2) {
        if (stages > question.chain.length()) break;
        question.platform = chain::first_ranks(platform, stages);
        question.stages = stages;
        question.micro_batches = 4 * stages;
        add_budgets(question, tally);
      }
      std::cout << "== " << chain_file.stem().string() << " on " << platform_file.stem().string()
                << "\n";
      tally.print();
      all.merge(tally);
    }
  }
  std::cout << "== all\n";
  all.print();
  return all.invalid + all.beaten == 0 ? 0 : 1;
}

int optimum(int count) {
  std::mt19937 random(4242);
  int feasible = 0, equal = 0, below = 0, above = 0, missed = 0, impossible = 0, slower = 0;
  int fewer = 0;
  double gap = 0, worst = 0, fewer_gain = 0;
  while (feasible < count) {
    const Question open = small_question(random, {}), question = as_scheduled(open);
    const Optimum best = EveryCut(question, false).search();
    if (std::isinf(best.step)) continue;
    ++feasible;
    const Answer answer = plan(question);
    const auto* found = std::get_if<plan::Plan>(&answer);
    if (found == nullptr) {
      ++missed;
      continue;
    }
    const double more = found->step.count() / best.step - 1;
    (std::abs(more) <= 1e-9 ? equal : more < 0 ? below : above) += 1;
    gap += std::max(0.0, more);
    worst = std::max(worst, more);
    if (found->step.count() < best.least_of(*found) * (1 - 1e-9)) ++impossible;
    const Answer other = plan(open);
    if (std::get<plan::Plan>(other).step < found->step * (1 - 1e-9)) {
      ++fewer;
      fewer_gain += found->step / std::get<plan::Plan>(other).step - 1;
    }
    if (found->step.count() > EveryCut(question, true).search().step * (1 + 1e-9)) ++slower;
  }
  std::cout << "instances " << feasible << ": equal " << equal
            << ", faster (recomputation hidden, programs mixed) " << below << ", slower " << above
            << ", no plan " << missed << "\nmean gap " << percent(gap / feasible) << ", worst "
            << percent(worst) << "\nbelow what is possible " << impossible
            << ", slower than the best persistent programs " << slower
            << "\nfaster with other numbers in flight than the schedule's " << fewer
            << ", there by " << percent(fewer_gain / std::max(1, fewer)) << " in the mean\n";
  return missed + impossible == 0 ? 0 : 1;
}

}  // namespace
}  // namespace trireme::partition

int main(int argc, char** argv) {
  using namespace trireme::partition;
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "scaling") return scaling(argc > 2 ? argv[2] : "");
  if (what == "gains" && argc > 2) return gains(argv[2], argc > 3 ? argv[3] : "");
  if (what == "random" && argc > 2) return random_pipelines(std::stoi(argv[2]));
  if (what == "optimum" && argc > 2) return optimum(std::stoi(argv[2]));
  if (what == "corpus" && argc > 3) return plan_corpus(argv[2], argv[3], argc > 4 ? argv[4] : "");
  if (what == "compare" && argc > 3) return compare_corpora(argv[2], argv[3]);
  if (what == "schedules" && argc > 2) return compare_schedules(argv[2]);
  if (what == "named" && argc > 2) return compare_named(argv[2], argc > 3 ? argv[3] : "");
  std::cerr << "partition_bench scaling [FILE] | gains CONFIGS [CHAIN] | random COUNT | optimum "
               "COUNT | corpus CONFIGS FILE [PART] | compare FILE FILE | "
               "schedules CONFIGS | named CONFIGS [CHAIN]\n";
  return 2;
}
