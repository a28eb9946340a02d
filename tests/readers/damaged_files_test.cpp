// Damaged files are read as what they say, or refused by an InputError: no other exception, no
// crash (the pure build runs this under sanitizers), and what was read can be written and read
// again.
// SPDX-License-Identifier: Apache-2.0
#include "readers/damage.h"
#include "support/temporary_folder.h"
#include "support/trials.h"

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/checkpoint/manifest.h"
#include "trireme/checkpoint/tensor_file.h"
#include "trireme/checkpoint/tensor_set.h"
#include "trireme/config/adapters.h"
#include "trireme/config/huggingface.h"
#include "trireme/config/job.h"
#include "trireme/core/error.h"
#include "trireme/graph/graph.h"
#include "trireme/graph/schedule.h"
#include "trireme/io/file.h"
#include "trireme/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace trireme::readers {
namespace {

using Reader = std::function<void(const std::string& text)>;

/// Reads damaged copies of `good`, which is read as it is first.
void expect_read_or_refused(const std::string& good, const Reader& read) {
  ASSERT_NO_THROW(read(good));
  std::mt19937 random(20261127);
  int refused = 0;
  const int count = trials(2000);
  for (int trial = 0; trial < count; ++trial) {
    const std::string text = damaged(good, random);
    try {
      read(text);
    } catch (const InputError& error) {
      ++refused;
      EXPECT_STRNE(error.what(), "");
    } catch (const std::exception& error) {
      ADD_FAILURE() << "damage number " << trial << ": " << error.what() << "\n" << text;
      return;
    }
  }
  EXPECT_GT(refused, count / 4) << "most damage is noticed";
  EXPECT_LT(refused, count) << "some damage does not matter";
}

std::string shipped(const std::string& name) {
  return io::read_file(std::string(TRIREME_SOURCE_DIR "/configs/") + name);
}

TEST(DamagedFiles, OfChainsAreReadOrRefused) {
  // The first layers are enough to damage.
  const std::string file = shipped("chains/vgg-16.yaml");
  std::size_t end = 0;
  for (int line = 0; line < 16; ++line) end = file.find('\n', end) + 1;
  expect_read_or_refused(file.substr(0, end), [](const std::string& text) {
    const chain::Chain read = chain::read_chain(io::parse(text, "chain.yaml"));
    EXPECT_EQ(chain::to_yaml(chain::read_chain(io::parse(chain::to_yaml(read), "again"))),
              chain::to_yaml(read));
  });
}

TEST(DamagedFiles, OfPlatformsAreReadOrRefused) {
  for (const char* const name :
       {"platforms/mixed-pair.yaml", "platforms/pcie-24-8.yaml", "platforms/nrf52840.yaml"})
    expect_read_or_refused(shipped(name), [](const std::string& text) {
      const chain::Platform read = chain::read_platform(io::parse(text, "platform.yaml"));
      chain::read_platform(io::parse(chain::to_yaml(read), "again"));
    });
}

TEST(DamagedFiles, OfGraphsAreReadOrRefused) {
  expect_read_or_refused(shipped("graphs/bert-block.yaml"), [](const std::string& text) {
    const graph::Graph read = graph::read_graph(io::parse(text, "graph.yaml"));
    EXPECT_EQ(graph::to_yaml(graph::read_graph(io::parse(graph::to_yaml(read), "again"))),
              graph::to_yaml(read));
  });
}

TEST(DamagedFiles, OfSchedulesAreReadOrRefused) {
  const graph::Graph graph =
      graph::load_graph(TRIREME_SOURCE_DIR "/configs/graphs/bert-block.yaml");
  const std::string compact = "c0-9 o3 c10-15 k15 c16-18 d15 c4-6 i3 c19-30";
  for (const std::string& good : {compact, to_text(parse_schedule(compact, graph), graph)})
    expect_read_or_refused(good, [&](const std::string& text) {
      const graph::Schedule read = parse_schedule(text, graph);
      EXPECT_EQ(parse_schedule(to_compact(read, graph), graph), read) << text;
      EXPECT_EQ(parse_schedule(to_text(read, graph), graph), read) << text;
    });
}

TEST(DamagedFiles, OfPlansAreReadOrRefused) {
  const std::string good = R"({"format": "trireme-plan/1",
 "chain": {"name": "c", "digest": "0123456789abcdef0123456789abcdef"},
 "schedule": "1f1b", "solver": "rotor", "micro_batches": 2,
 "predicted": {"step_s": 1.25, "bubble": 0.2, "recompute_s": 0.5},
 "stages": [
  {"layers": [1, 2], "rank": 0, "in_flight": 2, "budget_bytes": 100, "static_bytes": 7,
   "forward": [["forward_keep", 1], ["offload", 0], ["forward_tape", 2], ["offload_tape", 2], ["drop", 1]],
   "backward": [["prefetch", 0], ["forward", 1], ["prefetch_tape", 2], ["backward", 2], ["forward_tape", 1], ["backward", 1]],
   "predicted": {"forward_s": 0.1, "backward_s": 0.3, "kept_bytes": 5, "peak_bytes": 99, "offloaded_bytes": 11}},
  {"layers": [3, 4], "rank": 1, "in_flight": 1, "budget_bytes": 0, "static_bytes": 0,
   "forward": [["forward_tape", 3], ["forward_tape", 4]],
   "backward": [["backward", 4], ["backward", 3]],
   "predicted": {"forward_s": 0, "backward_s": 0, "kept_bytes": 0, "peak_bytes": 0, "offloaded_bytes": 0}}]})";
  expect_read_or_refused(good, [](const std::string& text) {
    const plan::Plan read = plan::read_plan(io::parse(text, "plan.json"));
    EXPECT_EQ(plan::to_json(plan::read_plan(io::parse(plan::to_json(read), "again"))),
              plan::to_json(read));
  });
}

TEST(DamagedFiles, OfJobsAreReadOrRefused) {
  const support::TemporaryFolder folder;
  io::write_file(folder / "a.txt", "some text");
  for (const std::string& name : {std::string("quickstart.yaml"), std::string("small-memory.yaml")})
    expect_read_or_refused(shipped(name), [](const std::string& text) {
      const config::JobSpec read = config::read_job(io::parse(text, "job.yaml"), {});
      EXPECT_EQ(config::to_yaml(config::read_job(io::parse(config::to_yaml(read), "again"), {})),
                config::to_yaml(read));
    });
}

TEST(DamagedFiles, OfManifestsAreRefused) {
  checkpoint::Manifest manifest{.step = 3, .data = "0123456789abcdef", .threads = 2};
  manifest.ties = {{"head.weight", "embedding.weight"}};
  manifest.tensors["parameters/a/weight"] = {.file = "rank-0.safetensors",
                                             .type = "F32",
                                             .sizes = {2, 3},
                                             .offset = Bytes(128),
                                             .size = Bytes(24),
                                             .digest = "0123"};
  const std::string good = checkpoint::to_json(manifest);
  expect_read_or_refused(good, [&](const std::string& text) {
    // Its own digest stands in it: what is read is what was written.
    EXPECT_EQ(checkpoint::to_json(checkpoint::read_manifest(io::parse(text, "manifest.json"))),
              good);
  });
}

TEST(DamagedFiles, OfTensorsAreReadOrRefused) {
  const support::TemporaryFolder folder;
  {
    checkpoint::TensorFile file(folder / "good.safetensors",
                                {{.name = "a", .type = "F32", .sizes = {2, 3}, .size = Bytes(24)},
                                 {.name = "b", .type = "BF16", .sizes = {4}, .size = Bytes(8)}});
    const std::vector<std::byte> zeros(24);
    file.append(zeros);
    file.append(std::span(zeros).first(8));
    file.finish();
  }
  const std::filesystem::path copy = folder / "copy.safetensors";
  expect_read_or_refused(io::read_file(folder / "good.safetensors"), [&](const std::string& text) {
    io::write_file(copy, text);
    for (const auto& [name, entry] : checkpoint::find_tensors(copy).tensors) {
      ASSERT_LE(entry.size, Bytes(32)) << "no more than there is";
      std::vector<std::byte> bytes(static_cast<std::size_t>(entry.size.count()));
      checkpoint::read_tensor(folder.path(), name, entry, bytes);
    }
  });
}

TEST(DamagedFiles, OfModelsFromElsewhereAreReadOrRefused) {
  const std::string gpt = R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
 "vocab_size": 256, "n_positions": 32, "n_embd": 48, "n_layer": 2, "n_head": 3, "layer_norm_epsilon": 1e-05})";
  const std::string llama =
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32,
 "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "vocab_size": 128, "max_position_embeddings": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "hidden_act": "silu"})";
  for (const std::string& good : {gpt, llama})
    expect_read_or_refused(good, [](const std::string& text) {
      config::read_huggingface(io::parse(text, "config.json"));
    });
  const config::ModelSpec model = config::read_huggingface(io::parse(llama, "config.json"));
  const std::string adapters = R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none",
 "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"})";
  expect_read_or_refused(adapters, [&](const std::string& text) {
    config::read_adapters(io::parse(text, "adapter_config.json"), model);
  });
}

}  // namespace
}  // namespace trireme::readers
