// Mutated documents: a reader either accepts any change of a good file or throws InputError, and
// what it accepts it can write and read again. Seeded, so that a failure repeats; raise kMutants
// for a longer search.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/config/job.h"
#include "trireme/core/error.h"
#include "trireme/io/node.h"
#include "trireme/plan/plan.h"
#include "trireme/program/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace trireme {
namespace {

constexpr int kMutants = 6000;  // per kind of document

const std::string kChain = chain::to_yaml(
    {.name = "c",
     .input = Bytes(65536),
     .layers = {{.name = "embed",
                 .forward = Seconds(1e-3),
                 .backward = Seconds(2e-3),
                 .output = Bytes(3 << 20),
                 .tape = Bytes(5 << 20),
                 .parameters = Bytes(77)},
                {.name = "head", .forward = Seconds(0.25), .backward = Seconds(0.5)}}});

const std::string kPlatform =
    "format: trireme-platform/1\n"
    "ranks:\n"
    "  - {memory_bytes: 24GiB, host_bytes: 1KiB, out_bytes_per_s: 12e9, in_bytes_per_s: 11GB/s}\n"
    "  - memory_bytes: 7\n"
    "    speed: 0.5\n"
    "channel_buffers: 1.5\n"
    "links:\n"
    "  default: {bytes_per_s: 1MiB/s, latency_s: 5us}\n"
    "  overrides:\n"
    "    - {between: [1, 0], bytes_per_s: 2e9, latency_s: 0}\n";

const std::string kJob =
    "# a job\n"
    "model: {kind: gpt, blocks: 2, width: 12, heads: 3, dropout: 0.25, tied_head: false}\n"
    "data:\n"
    "  kind: tokens\n"
    "  files: [a.bin, \"b*.bin\"]\n"
    "train:\n"
    "  batch: 24\n"
    "  micro_batch: 3\n"
    "  optimizer: {kind: adamw, learning_rate: 1e-3, betas: [0.8, 0.99]}\n"
    "  schedule: {kind: cosine, warmup_steps: 4}\n"
    "pipeline: {stages: 3, replicas: 2, cut: [2, 4], timeout: 2min}\n"
    "memory: {device_budget: [1GiB, 50%, 3, 4, 5, 6], host_budget: 2MiB, disk_path: '/tmp/x'}\n"
    "report: {tensorboard: false}\n";

std::string plan_text() {
  plan::Plan plan;
  plan.chain_name = "c";
  plan.chain_digest = "0123456789abcdef";
  plan.solver = "rotor";
  plan.micro_batches = 2;
  plan.step = Seconds(0.5);
  plan.stages = {{.rank = 0, .program = program::recompute_all(1, 2)},
                 {.rank = 1, .program = program::keep_all(3, 4)}};
  plan.alternatives = {{.policy = "keep_all", .step = {}, .infeasible = plan::Infeasible{}}};
  return plan::to_json(plan);
}

class Mutator {
 public:
  Mutator(unsigned seed, std::string original) : random_(seed), original_(std::move(original)) {}

  std::string next() {
    std::string text = original_;
    for (std::size_t n = 1 + below(2) * below(3); n > 0; --n) mutate(text);
    return text;
  }

  /// Fragments in any order, from no document at all.
  std::string soup() {
    std::string text;
    for (std::size_t n = 1 + below(20); n > 0; --n) text += fragment();
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(below(12), text.size() - at);
    switch (below(9)) {
      case 0:
        text.insert(at, 1, static_cast<char>(below(256)));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        text.replace(at, length, fragment());
        break;
      case 5:
        text.insert(at, fragment());
        break;
      case 6:
        replace_word(text, at);
        break;
      case 7:
        repeat_line(text, at);
        break;
      case 8:
        text.insert(at, original_.substr(below(original_.size()), below(40)));
        break;
    }
  }

  /// What a value may become when it goes wrong.
  const std::string& fragment() {
    static const std::vector<std::string> fragments{"-1",
                                                    "0",
                                                    "1",
                                                    "2",
                                                    "99999999999999999999",
                                                    "1e999",
                                                    "nan",
                                                    ".inf",
                                                    "0x10",
                                                    "1_000",
                                                    "010",
                                                    "auto",
                                                    "null",
                                                    "~",
                                                    "true",
                                                    "\"\"",
                                                    "''",
                                                    "[",
                                                    "]",
                                                    "{",
                                                    "}",
                                                    ",",
                                                    ":",
                                                    ": ",
                                                    "- ",
                                                    "\n",
                                                    "\t",
                                                    "#",
                                                    " #",
                                                    "&a ",
                                                    "*a",
                                                    "!!int ",
                                                    "|",
                                                    ">",
                                                    "%",
                                                    "@",
                                                    "`",
                                                    "\"",
                                                    "'",
                                                    "\\",
                                                    "\xff",
                                                    "\xc3\xa9",
                                                    std::string(1, '\0'),
                                                    "\x04",
                                                    "---\n",
                                                    "...\n",
                                                    "? ",
                                                    "<<: ",
                                                    "\r\n",
                                                    "80%",
                                                    "1GiB",
                                                    "[1, 2]",
                                                    "{a: 1}",
                                                    "[[[[[[[[",
                                                    "9223372036854775807",
                                                    "4611686018427387904",
                                                    "1e-320",
                                                    "-0",
                                                    "forward"};
    return fragments[below(fragments.size())];
  }

  void replace_word(std::string& text, std::size_t at) {
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    std::size_t begin = at, end = at;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    while (end < text.size() && is_word(text[end])) ++end;
    text.replace(begin, end - begin, fragment());
  }

  void repeat_line(std::string& text, std::size_t at) {
    const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    text.insert(begin, text.substr(begin, end - begin) + "\n");
  }

  std::mt19937 random_;
  std::string original_;
};

/// How many mutants the reader accepted; fails for every one that it neither accepts nor refuses
/// with InputError.
int accepted(const std::string& original, const std::function<void(const std::string&)>& read) {
  EXPECT_NO_THROW(read(original));
  Mutator mutator(1, original);
  int count = 0;
  for (int i = 0; i < kMutants; ++i) {
    const std::string text = mutator.next();
    try {
      read(text);
      ++count;
    } catch (const InputError&) {
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutant " << i << ": " << error.what() << "\n" << text;
    }
  }
  return count;
}

/// A reader that accepts nothing or everything tests nothing.
void expect_a_mixture(int count) {
  EXPECT_GT(count, kMutants / 100);
  EXPECT_LT(count, kMutants / 2);
}

TEST(Mutation, OfAChainIsReadOrRefused) {
  expect_a_mixture(accepted(kChain, [](const std::string& text) {
    const chain::Chain chain = chain::read_chain(io::parse(text, "c.yaml"));
    EXPECT_EQ(chain::read_chain(io::parse(chain::to_yaml(chain), "again.yaml")), chain) << text;
    EXPECT_EQ(chain::digest(chain).size(), 32U);
  }));
}

TEST(Mutation, OfAPlatformIsReadOrRefused) {
  expect_a_mixture(accepted(kPlatform, [](const std::string& text) {
    const chain::Platform platform = chain::read_platform(io::parse(text, "p.yaml"));
    EXPECT_EQ(chain::read_platform(io::parse(chain::to_yaml(platform), "again.yaml")), platform)
        << text;
  }));
}

TEST(Mutation, OfAJobIsReadOrRefused) {
  expect_a_mixture(accepted(kJob, [](const std::string& text) {
    const config::LoadOptions options{.settings = {}, .own_models = {"mine"}};
    const std::string once = config::to_yaml(config::read_job(io::parse(text, "j.yaml"), options));
    EXPECT_EQ(config::to_yaml(config::read_job(io::parse(once, "again.yaml"), options)), once)
        << text;
  }));
}

TEST(Mutation, OfAPlanIsReadOrRefused) {
  for (const char* name : {"p.json", "p.yaml"}) {
    expect_a_mixture(accepted(plan_text(), [&](const std::string& text) {
      const plan::Plan plan = plan::read_plan(io::parse(text, name));
      EXPECT_EQ(plan::read_plan(io::parse(plan::to_json(plan), "again.json")), plan) << text;
      if (plan.micro_batches <= 64) plan::compile(plan);
    }));
  }
}

TEST(Mutation, OfASettingIsReadOrRefused) {
  const io::Node job = io::parse(kJob, "j.yaml");
  expect_a_mixture(
      accepted("train.optimizer={kind: sgd, learning_rate: 0.5}", [&](const std::string& text) {
        config::read_job(job, {.settings = {text}, .own_models = {}});
      }));
}

TEST(Mutation, OfNothingIsReadOrRefused) {
  Mutator mutator(3, "");
  for (int i = 0; i < kMutants; ++i) {
    const std::string text = mutator.soup();
    for (const char* name : {"n.yaml", "n.json"}) {
      try {
        const std::string once = io::parse(text, name).to_yaml();
        EXPECT_EQ(io::parse(once, "again.yaml").to_yaml(), once) << text;
      } catch (const InputError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with(name)) << error.what() << "\n" << text;
      }
    }
  }
}

TEST(Mutation, OfANodeWritesWhatItReads) {
  const std::string text =
      "a: [1, 'x y', {b: ~, \"c\\n\": \"\\x41\\t\"}]\n"
      "d: |\n"
      "  two\n"
      "  lines\n"
      "e:\n"
      "  - - f\n"
      "    - g: >-\n"
      "        folded\n"
      "        text\n";
  EXPECT_NO_THROW(io::parse(text, "n.yaml"));
  Mutator mutator(2, text);
  int count = 0;
  for (int i = 0; i < kMutants; ++i) {
    const std::string mutant = mutator.next();
    try {
      const std::string once = io::parse(mutant, "n.yaml").to_yaml();
      EXPECT_EQ(io::parse(once, "again.yaml").to_yaml(), once) << mutant;
      ++count;
    } catch (const InputError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("n.yaml:")) << error.what() << "\n"
                                                                    << mutant;
    }
  }
  expect_a_mixture(count);
}

}  // namespace
}  // namespace trireme
