// SPDX-License-Identifier: Apache-2.0
#include "corpus.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/partition/planner.h"
#include "trireme/partition/shape.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// What is asked of a chain on a platform, beside stages and budget.
struct Setting {
  std::string name;
  int most_stages = 1;
  std::function<void(Question&)> settle;
};

struct Case {
  std::string name;
  std::function<Answer()> answer;
};

/// One line of a table.
struct Row {
  std::string digest;
  std::optional<double> step;
  double seconds = 0;
};

/// `auto` in every way, each thing that a user can fix, and each named solver. Where more is open
/// fewer stages are asked for: the corpus is to be planned in minutes.
const std::vector<Setting>& settings() {
  static const std::vector<Setting> kSettings{
      {"auto", 8, open_everything},
      {"unclipped", 8,
       [](Question& question) {
         open_everything(question);
         question.clips = false;
       }},
      {"plain", 64, [](Question&) {}},
      {"whole backwards", 16, [](Question& question) { question.splits_backward = false; }},
      {"gpipe", 8, [](Question& question) { question.schedule = "gpipe"; }},
      {"group", 8, [](Question& question) { question.group = std::nullopt; }},
      {"optimizer offload", 8, [](Question& question) { question.optimizer_copies = kAnyTime; }},
      {"weights offload", 8,
       [](Question& question) {
         question.streamed = all_to_stream(question.chain);
         question.optimizer_copies = std::nullopt;
       }},
      {"shards", 8,
       [](Question& question) {
         question.replicas = question.optimizer_shards = 4;
         question.optimizer_copies = std::nullopt;
         shard_optimizer(question);
       }},
      {"two in flight", 8,
       [](Question& question) {
         for (int stage = 0; stage < question.stages; ++stage)
           question.in_flight.push_back(std::min(2, question.stages - stage));
       }},
      {"joint", 8, [](Question& question) { question.solver = "joint"; }},
      {"madpipe", 8, [](Question& question) { question.solver = "madpipe"; }},
      {"adapipe", 8, [](Question& question) { question.solver = "adapipe"; }},
      {"uniform", 8, [](Question& question) { question.solver = "uniform"; }},
  };
  return kSettings;
}

/// Two of three settings, each with one of the memories, by turns: a corpus of all pairs would take
/// hours. Large platforms are asked for long pipelines alone: their first ranks are like those of a
/// small one.
void add_pipelines(const chain::Chain& chain, const chain::Platform& platform,
                   const std::string& name, std::size_t& turn, std::vector<Case>& cases) {
  const int ranks = static_cast<int>(platform.ranks.size());
  for (int stages = ranks > 8 ? 16 : 1; stages <= std::min(ranks, chain.length()); stages *= 4) {
    for (const Setting& setting : settings()) {
      if (stages > setting.most_stages) continue;
      if (stages == 1 && setting.name == "two in flight") continue;
      if (turn++ % 3 == 2) continue;
      const Memory& memory = kMemories[turn / 3 % std::size(kMemories)];
      Question question;
      question.chain = chain;
      question.stages = stages;
      question.micro_batches = 4 * stages;
      question.platform = chain::first_ranks(platform, stages);
      for (chain::RankSpec& rank : question.platform.ranks)
        rank.memory = budget(chain, stages, memory);
      setting.settle(question);
      cases.push_back({concat(name, ", ", stages, " stages, ", memory.name, ", ", setting.name),
                       [question] { return plan(question); }});
    }
  }
}

void add_shapes(const chain::Chain& chain, const chain::Platform& platform, const std::string& name,
                std::vector<Case>& cases) {
  const int ranks = std::min<int>(8, static_cast<int>(platform.ranks.size()));
  ShapeQuestion question;
  question.chain_at = [chain](int micro_batch) { return scaled_chain(chain, 1, micro_batch); };
  question.ranks = ranks;
  question.batch = 8 * ranks;
  question.common.platform = chain::first_ranks(platform, ranks);
  cases.push_back({concat(name, ", any shape of ", ranks, " ranks"), [question]() -> Answer {
                     const ShapeAnswer answer = choose_shape(question);
                     if (answer.chosen) return *answer.tried[*answer.chosen].answer;
                     return *answer.tried[leanest(answer)].answer;
                   }});
}

std::vector<Case> cases_of(const std::filesystem::path& configs) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const auto& chain_file : files_in(configs / "chains")) {
    const chain::Chain chain = chain::load_chain(chain_file);
    for (const auto& platform_file : files_in(configs / "platforms")) {
      const chain::Platform platform = chain::load_platform(platform_file);
      if (platform.ranks.size() < 2) continue;  // a small device, for graphs
      const std::string name =
          concat(chain_file.stem().string(), " on ", platform_file.stem().string());
      add_pipelines(chain, platform, name, turn, cases);
      add_shapes(chain, platform, name, cases);
    }
  }
  return cases;
}

Row row_of(const Case& one) {
  const auto begin = std::chrono::steady_clock::now();
  Row row;
  try {
    const Answer answer = one.answer();
    row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    row.digest = digest(std::visit([](const auto& each) { return plan::to_json(each); }, answer));
    if (const auto* found = std::get_if<plan::Plan>(&answer)) row.step = found->step.count();
  } catch (const InputError& error) {  // what is refused has to stay refused
    row.digest = digest(error.what());
  }
  return row;
}

std::string step_text(const Row& row) {
  return row.step ? concat(*row.step) : "-";
}

std::map<std::string, Row> rows_in(const std::filesystem::path& file) {
  std::map<std::string, Row> rows;
  for (const std::string& line : split(io::read_file(file), '\n')) {
    const std::vector<std::string> cells = split(line, '\t');
    if (cells.size() != 4) continue;
    rows[cells[0]] = {.digest = cells[1],
                      .step = cells[2] == "-" ? std::nullopt : std::optional(std::stod(cells[2])),
                      .seconds = std::stod(cells[3])};
  }
  return rows;
}

/// Sum and maximum of the seconds of planning.
std::pair<double, double> seconds_of(const std::map<std::string, Row>& rows) {
  double sum = 0, longest = 0;
  for (const auto& [name, row] : rows) {
    sum += row.seconds;
    longest = std::max(longest, row.seconds);
  }
  return {sum, longest};
}

/// How many questions only `rows` has, of the table in that file; prints them.
int alone_in(const std::filesystem::path& file, const std::map<std::string, Row>& rows,
             const std::map<std::string, Row>& others) {
  int alone = 0;
  for (const auto& [name, row] : rows) {
    if (others.contains(name)) continue;
    std::cout << name << ": is in " << file.string() << " alone\n";
    ++alone;
  }
  return alone;
}

}  // namespace

void open_everything(Question& question) {
  question.optimizer_copies = std::nullopt;
  question.streamed = std::nullopt;
  question.weights_at_once = std::nullopt;
  question.group = std::nullopt;
  question.updates = std::nullopt;
}

Bytes budget(const chain::Chain& chain, int stages, const Memory& memory) {
  Bytes tapes, widest;
  for (const chain::LayerCost& layer : chain.layers) {
    tapes += layer.tape;
    widest = std::max(widest, layer.tape + layer.backward_transient + layer.output * 2);
  }
  const double fixed = static_cast<double>(static_bytes(chain, 1, chain.length()).count()) / stages;
  return widest * 2 +
         Bytes(static_cast<std::int64_t>(memory.resident * fixed +
                                         memory.kept * static_cast<double>(tapes.count())));
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

int plan_corpus(const std::filesystem::path& configs, const std::filesystem::path& file,
                const std::string& part) {
  std::string lines;
  double all = 0, longest = 0;
  int plans = 0;
  std::vector<Case> cases = cases_of(configs);
  std::erase_if(cases, [&](const Case& one) { return one.name.find(part) == std::string::npos; });
  for (const Case& one : cases) {
    const Row row = row_of(one);
    all += row.seconds;
    longest = std::max(longest, row.seconds);
    plans += row.step ? 1 : 0;
    const std::string line =
        concat(one.name, "\t", row.digest, "\t", step_text(row), "\t", row.seconds, "\n");
    std::cout << line << std::flush;
    lines += line;
  }
  io::write_file(file, lines);
  std::cout << cases.size() << " questions, " << plans << " plans, " << all
            << " s of planning, the longest " << longest << " s\n";
  return 0;
}

int compare_corpora(const std::filesystem::path& before, const std::filesystem::path& after) {
  const std::map<std::string, Row> old = rows_in(before), now = rows_in(after);
  int equal = 0, slower = 0, faster = 0, lost = 0, won = 0, both = 0;
  double logarithms = 0, worst = 1;
  for (const auto& [name, was] : old) {
    const auto found = now.find(name);
    if (found == now.end()) continue;
    const Row& is = found->second;
    equal += was.digest == is.digest ? 1 : 0;
    if (was.step && !is.step) std::cout << name << ": has no plan any more\n";
    lost += was.step && !is.step ? 1 : 0;
    won += !was.step && is.step ? 1 : 0;
    if (!was.step || !is.step) continue;
    const double ratio = *is.step / *was.step;
    ++both;
    logarithms += std::log(ratio);
    worst = std::max(worst, ratio);
    slower += ratio > 1.01 ? 1 : 0;
    faster += ratio < 0.99 ? 1 : 0;
    if (ratio > 1.01) std::cout << name << ": step " << ratio << " times as long\n";
  }
  const int alone = alone_in(before, old, now) + alone_in(after, now, old);
  const auto [sum_before, longest_before] = seconds_of(old);
  const auto [sum_after, longest_after] = seconds_of(now);
  std::cout << both << " plans in both, " << equal << " of " << old.size()
            << " answers equal to the byte; more than 1 % slower " << slower << ", faster "
            << faster << ", lost " << lost << ", won " << won << "\nsteps: geometric mean "
            << std::exp(logarithms / std::max(1, both)) << ", worst " << worst
            << "\nplanning: " << sum_before << " s before, " << sum_after << " s after ("
            << sum_after / sum_before << "), the longest " << longest_before << " and "
            << longest_after << " s\n";
  return alone + slower + lost == 0 ? 0 : 1;
}

}  // namespace trireme::partition
