// Jobs of all kinds with every split of the offload tier between host memory and disk: exactly what
// a plan needs is reserved, so a job that is not refused runs to its end.
// SPDX-License-Identifier: Apache-2.0
#include "budgets.h"

#include "trireme/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace trireme {
namespace {

using Choices = std::vector<std::string>;

class Draws {
 public:
  explicit Draws(unsigned seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  const std::string& one_of(const Choices& choices) {
    return choices[static_cast<std::size_t>(below(std::ssize(choices)))];
  }
  /// From 1 to 2^bits - 1, small numbers as often as large ones.
  std::int64_t any_size(int bits) { return 1 + below(std::int64_t{1} << below(bits)); }

 private:
  std::mt19937_64 engine_;
};

/// Odd widths: optimizer state whose parts end in the middle of a cache line.
const Choices kModels{
    "{kind: gpt, blocks: 2, width: 18, heads: 2, context: 9, vocabulary: 37, dropout: 0}",
    "{kind: gpt, blocks: 3, width: 32, heads: 2, context: 16, vocabulary: 64, dropout: 0.1, "
    "grain: fine}",
    "{kind: gpt, blocks: 2, width: 32, heads: 4, context: 8, vocabulary: 64, lora_rank: 3}",
    "{kind: vit, image_size: 16, patch: 4, blocks: 2, width: 32, heads: 4, classes: 5, dropout: 0}",
    "{kind: mlp, inputs: 13, widths: [27, 19, 27], classes: 3}"};
const Choices kOptimizers{"{kind: adamw, learning_rate: 0.001}", "{kind: sgd, learning_rate: 0.05}",
                          "{kind: sgd, learning_rate: 0.05, momentum: 0.9}"};
const Choices kTrain{"train.clip_norm=0", "train.clip_norm=1",
                     "train.precision=bfloat16_weights --set train.clip_norm=0",
                     "train.precision=bfloat16_weights"};
const Choices kMemory{"memory.optimizer=auto",
                      "memory.optimizer=offload",
                      "memory.optimizer=offload --set memory.weights=offload",
                      "memory.weights=offload",
                      "plan.solver=offload",
                      "plan.solver=offload --set memory.optimizer=offload",
                      "plan.solver=keep_all --set memory.optimizer=offload"};
/// A setting that is refused where frozen weights could be streamed.
const std::string kUpdatesInForward = " --set memory.updates=in_forward";

unsigned trials() {
  const char* const text = std::getenv("TRIREME_OFFLOAD_ROOM_TRIALS");
  return text == nullptr ? 6 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

std::string sizes(Draws& draws, int split, std::int64_t room) {
  const std::int64_t host = split == 0 ? room : split == 1 ? 0 : draws.below(room);
  return concat(" --set memory.host_budget=", host, " --set memory.disk_budget=", room - host);
}

/// A job's command line without budgets, and its offload tier.
struct Job {
  std::string words, memory;
};

Job random_job(Draws& draws, const TemporaryFolder& folder) {
  const std::string& model = draws.one_of(kModels);
  const std::string file = folder.file(
      "small.yaml",
      concat(
          "model: ", model, "\ndata: {kind: synthetic}\ntrain: {steps: 2, batch: 4, micro_batch: ",
          1 + draws.below(2), ", optimizer: ", draws.one_of(kOptimizers),
          "}\nthreads: 1\nreport: {html: false, directory: ", small_run(folder).string(), "}\n"));
  Job job{concat(file, " --set ", draws.one_of(kTrain),
                 " --set pipeline.stages=", draws.below(3) == 0 ? 2 : 1),
          " --set " + draws.one_of(kMemory)};
  const bool has_frozen = model.find("lora") != model.npos;
  if (draws.below(4) == 0 && !has_frozen) job.memory += kUpdatesInForward;
  return job;
}

TEST(OffloadRoom, OfAPlanIsWhatARunHas) {
  int ran = 0, refused = 0;
  for (unsigned seed = 0; seed < trials(); ++seed) {
    Draws draws(seed);
    const TemporaryFolder folder;
    const Job job = random_job(draws, folder);
    const CommandResult free = run_command(kTrireme + " train " + job.words);
    ASSERT_EQ(free.exit_code, 0) << job.words << "\n" << free.errors;
    const std::string digest = summary_of(folder)["parameters_digest"];
    const std::int64_t least =
        least_budget(job.words, job.memory + " --set memory.host_budget=64MiB");
    for (int split = 0; split < 4; ++split) {
      const std::string command =
          kTrireme + " train " + job.words + job.memory + budget(least + draws.any_size(18)) +
          sizes(draws, split, draws.any_size(20) + (split == 3 ? 1 << 20 : 0));
      const CommandResult run = run_command(command);
      if (run.exit_code == 3) {
        ++refused;
        continue;
      }
      ASSERT_EQ(run.exit_code, 0) << "seed " << seed << ": " << command << "\n" << run.errors;
      EXPECT_EQ(summary_of(folder)["parameters_digest"], digest) << command;
      ++ran;
    }
  }
  std::cout << ran << " runs, " << refused << " refused as their budgets are too small\n";
  EXPECT_GE(2 * ran, static_cast<int>(trials()));
}

}  // namespace
}  // namespace trireme
