// SPDX-License-Identifier: Apache-2.0
#include "trireme/chain/chain.h"

#include "chain/reading.h"
#include "support/temporary_folder.h"

#include "trireme/chain/layer_range.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace trireme::chain {
namespace {

using support::input_error;

const std::string kLayer =
    "  - {name: a, forward_s: 1, backward_s: 2, output_bytes: 3, tape_bytes: 4}\n";

LayerCost layer_with(const std::string& name, std::int64_t first) {
  return {.name = name,
          .forward = Seconds(0.1 * static_cast<double>(first)),
          .backward = Seconds(0.2 * static_cast<double>(first)),
          .output = Bytes(first),
          .tape = Bytes(first + 1),
          .forward_transient = Bytes(first + 2),
          .tape_transient = Bytes(first + 3),
          .backward_transient = Bytes(first + 4),
          .parameters = Bytes(first + 5),
          .gradients = Bytes(first + 6),
          .optimizer = Bytes(first + 7)};
}

TEST(Chain, NumbersItsLayersFromOne) {
  const Chain chain{
      .name = "c", .input = Bytes(9), .layers = {layer_with("a", 1), layer_with("b", 2)}};

  EXPECT_EQ(chain.length(), 2);
  EXPECT_EQ(chain.layer(2).name, "b");
  EXPECT_EQ(chain.output(0), Bytes(9));
  EXPECT_EQ(chain.output(2), Bytes(2));
}

TEST(LayersText, NamesOneLayerOrARange) {
  EXPECT_EQ(layers_text({3, 5}), "layers 3..5");
  EXPECT_EQ(layers_text({3, 3}), "layer 3");
}

TEST(ReadChain, ReadsEveryField) {
  const Chain chain = read(
      "format: trireme-chain/1\n"
      "name: gpt-6x384\n"
      "input_bytes: 64KiB\n"
      "layers:\n"
      "  - {name: embed, forward_s: 1.0e-3, backward_s: 1.5ms, output_bytes: 3MiB, tape_bytes: 5,\n"
      "     forward_transient_bytes: 6, tape_transient_bytes: 7, backward_transient_bytes: 8,\n"
      "     parameter_bytes: 9, gradient_bytes: 10, optimizer_bytes: 11, update_s: 12us,\n"
      "     forward_j: 0.25, backward_j: 1e-3, frozen_bytes: 4}\n");

  const LayerCost embed{.name = "embed",
                        .forward = Seconds(1e-3),
                        .backward = Seconds(1.5e-3),
                        .output = Bytes(3 << 20),
                        .tape = Bytes(5),
                        .forward_transient = Bytes(6),
                        .tape_transient = Bytes(7),
                        .backward_transient = Bytes(8),
                        .parameters = Bytes(9),
                        .gradients = Bytes(10),
                        .optimizer = Bytes(11),
                        .update = Seconds(12e-6),
                        .forward_energy = Joules(0.25),
                        .backward_energy = Joules(1e-3),
                        .frozen = Bytes(4)};
  EXPECT_EQ(chain, (Chain{.name = "gpt-6x384", .input = Bytes(65536), .layers = {embed}}));
}

TEST(ReadChain, TakesTheSecondarySizesForZero) {
  const Chain chain = read(kHead + kLayer);

  EXPECT_EQ(chain.layer(1), (LayerCost{.name = "a",
                                       .forward = Seconds(1),
                                       .backward = Seconds(2),
                                       .output = Bytes(3),
                                       .tape = Bytes(4)}));
}

TEST(ReadChain, ReadsJsonToo) {
  EXPECT_EQ(read_chain(io::parse(
                R"({"format": "trireme-chain/1", "name": "c", "input_bytes": 8, "layers": [
                    {"name": "a", "forward_s": 1, "backward_s": 2, "output_bytes": 3, "tape_bytes": 4}]})",
                "c.json")),
            read(kHead + kLayer));
}

Chain random_chain(std::mt19937_64& random) {
  std::uniform_real_distribution<double> exponent(-12, 4);
  const auto time = [&] { return Seconds(std::pow(10.0, exponent(random))); };
  const auto size = [&] {
    return Bytes(static_cast<std::int64_t>(random() >> (10 + random() % 50)));
  };
  const std::vector<std::string> names{"block.attention", "a b", "12",          "true",
                                       "x: {y",           "",    "\"'\\ \u5c42"};
  Chain chain{.name = names[random() % names.size()], .input = size(), .layers = {}};
  for (std::size_t n = 1 + random() % 20; n > 0; --n) {
    chain.layers.push_back({names[random() % names.size()], time(), time(), size(), size(), size(),
                            size(), size(), size(), size(), size(),
                            random() % 2 == 0 ? Seconds(0) : time()});
  }
  return chain;
}

TEST(ToYaml, ReadsBackAsTheSameChain) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 300; ++i) {
    const Chain chain = random_chain(random);
    EXPECT_EQ(read(to_yaml(chain)), chain) << to_yaml(chain);
  }
}

TEST(ToYaml, IsOneLinePerLayer) {
  EXPECT_EQ(to_yaml({.name = "c", .input = Bytes(8), .layers = {layer_with("a", 1)}}),
            "format: trireme-chain/1\n"
            "name: c\n"
            "input_bytes: 8\n"
            "layers:\n"
            "  - {name: a, forward_s: 0.1, backward_s: 0.2, output_bytes: 1, tape_bytes: 2, "
            "forward_transient_bytes: 3, tape_transient_bytes: 4, backward_transient_bytes: 5, "
            "parameter_bytes: 6, gradient_bytes: 7, optimizer_bytes: 8}\n");
}

TEST(LoadChain, ReadsWhatWasSaved) {
  const support::TemporaryFolder folder;
  std::mt19937_64 random(12);
  const Chain chain = random_chain(random);

  io::write_file(folder / "chain.yaml", to_yaml(chain));

  EXPECT_EQ(load_chain(folder / "chain.yaml"), chain);
}

TEST(Digest, IsTheSameForEqualCostsWhateverTheNames) {
  Chain chain{.name = "c", .input = Bytes(8), .layers = {layer_with("a", 1), layer_with("b", 2)}};
  const std::string before = digest(chain);

  chain.name = "other";
  chain.layers[1].name = "other";

  EXPECT_EQ(digest(chain), before);
}

TEST(Digest, DiffersWhenAnyCostDoes) {
  const Chain chain{
      .name = "c", .input = Bytes(8), .layers = {layer_with("a", 1), layer_with("b", 20)}};
  const std::vector<std::function<void(Chain&)>> changes{
      [](Chain& c) { c.input += Bytes(1); },
      [](Chain& c) { c.layers.pop_back(); },
      [](Chain& c) { std::swap(c.layers[0], c.layers[1]); },
      [](Chain& c) {
        c.layers[1].forward = Seconds(std::nextafter(c.layers[1].forward.count(), 1e9));
      },
      [](Chain& c) { c.layers[1].backward += Seconds(1); },
      [](Chain& c) { c.layers[1].output += Bytes(1); },
      [](Chain& c) { c.layers[1].tape += Bytes(1); },
      [](Chain& c) { c.layers[1].forward_transient += Bytes(1); },
      [](Chain& c) { c.layers[1].tape_transient += Bytes(1); },
      [](Chain& c) { c.layers[1].backward_transient += Bytes(1); },
      [](Chain& c) { c.layers[1].parameters += Bytes(1); },
      [](Chain& c) { c.layers[1].gradients += Bytes(1); },
      [](Chain& c) { c.layers[1].forward_energy += Joules(1); },
      [](Chain& c) { c.layers[1].backward_energy += Joules(1); },
      [](Chain& c) { c.layers[1].optimizer += Bytes(1); },
      [](Chain& c) { c.layers[1].split.emplace(); },
      [](Chain& c) {
        c.layers[1].split = {Seconds(1), {}, {}, {}};
      },
      [](Chain& c) {
        c.layers[1].split = {{}, Bytes(1), {}, {}};
      }};

  for (std::size_t i = 0; i < changes.size(); ++i) {
    Chain changed = chain;
    changes[i](changed);
    EXPECT_NE(digest(changed), digest(chain)) << i;
  }
}

TEST(Digest, DoesNotKnowANegativeZero) {
  Chain chain{.name = "c", .input = Bytes(8), .layers = {layer_with("a", 0)}};
  const std::string before = digest(chain);
  chain.layers[0].forward = Seconds(-0.0);
  EXPECT_EQ(digest(chain), before);
}

struct Broken {
  std::string text;
  std::string message;
};

TEST(ReadChain, RefusesABrokenHead) {
  const std::vector<Broken> table{
      {"", "c.yaml:1: format is missing"},
      {"[1]", "c.yaml:1: the document is a list, must be a map (key: value)"},
      {"format: trireme-chain/2\n", "c.yaml:1: format is trireme-chain/2, must be trireme-chain/1"},
      {"format: trireme-plan/1\n", "c.yaml:1: format is trireme-plan/1, must be trireme-chain/1"},
      {"format: trireme-chain/1\n", "c.yaml:1: name is missing"},
      {"format: trireme-chain/1\nname: []\n", "c.yaml:2: name is a list, must be text"},
      {"format: trireme-chain/1\nname: c\n", "c.yaml:1: input_bytes is missing"},
      {"format: trireme-chain/1\nname: c\ninput_bytes: -1\n",
       "c.yaml:3: input_bytes is -1, must be a size such as 2GiB or 4096 (bytes)"},
      {"format: trireme-chain/1\nname: c\ninput_bytes: 8\n", "c.yaml:1: layers is missing"},
      {kHead, "c.yaml:4: layers is empty, must be a list"},
      {kHead + "  []\n", "c.yaml:4: layers has 0 layers, must have from 1 to 100000"},
      {kHead + kLayer + "outputs: 5\n",
       "c.yaml:6: outputs is not a key here (known: format, name, "
       "input_bytes, state_line_bytes, layers)"},
      {kHead + kLayer + "layer: 5\n",
       "c.yaml:6: layer is not a key here (did you mean 'layers'?)"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal(text), message);
}

TEST(ReadChain, RefusesABrokenLayerByNumberAndName) {
  const std::string costs = "forward_s: 1, backward_s: 2, output_bytes: 3, tape_bytes: 4";
  const std::vector<Broken> table{
      {"  - 5\n", "layer 2 is 5, must be a map (key: value)"},
      {"  - {" + costs + "}\n", "layer 2.name is missing"},
      {"  - {name: [b], " + costs + "}\n", "layer 2.name is a list, must be text"},
      {"  - {name: b.mlp, forward_s: 1, output_bytes: 3, tape_bytes: 4}\n",
       "layer 2 (b.mlp).backward_s is missing"},
      {"  - {name: b, forward_s: 1, backward_s: 1, output_bytes: 3}\n",
       "layer 2 (b).tape_bytes is missing"},
      {"  - {name: b, " + costs + ", tape: 4}\n",
       "layer 2 (b).tape is not a key here (known: name, forward_s, backward_s, output_bytes, "
       "tape_bytes, forward_transient_bytes, tape_transient_bytes, backward_transient_bytes, "
       "parameter_bytes, gradient_bytes, optimizer_bytes, update_s, forward_j, backward_j, "
       "frozen_bytes, trained_bytes, trained_gradient_bytes, tape_stays_bytes, retape_s, "
       "retape_bytes, "
       "retape_transient_bytes, "
       "retape_backward_transient_bytes, backward_weights_s, pending_bytes, "
       "backward_input_transient_bytes, backward_weights_transient_bytes)"},
      {"  - {name: b, " + costs + ", parameters_bytes: 4}\n",
       "layer 2 (b).parameters_bytes is not a key here (did you mean 'parameter_bytes'?)"},
      {"  - {name: b, " + costs + ", gradient_bytes: -4}\n",
       "layer 2 (b).gradient_bytes is -4, must be a size such as 2GiB or 4096 (bytes)"},
      {"  - {name: b, forward_s: -1, backward_s: 1, output_bytes: 3, tape_bytes: 4}\n",
       "layer 2 (b).forward_s is -1, must be a time such as 1.5ms or 60 (seconds)"},
      {"  - {name: b, forward_s: nan, backward_s: 1, output_bytes: 3, tape_bytes: 4}\n",
       "layer 2 (b).forward_s is nan, must be a time such as 1.5ms or 60 (seconds)"},
      {"  - {name: b, forward_s: 1e999, backward_s: 1, output_bytes: 3, tape_bytes: 4}\n",
       "layer 2 (b).forward_s is 1e999, must be a time such as 1.5ms or 60 (seconds)"},
      {"  - {name: b, forward_s: 1e10, backward_s: 1, output_bytes: 3, tape_bytes: 4}\n",
       "layer 2 (b).forward_s is 1e10, must be at most 1e+09 s"},
      {"  - {name: b, " + costs + ", forward_j: -0.5}\n",
       "layer 2 (b).forward_j is -0.5, must be a number from 0 to 1e+12"},
      {"  - {name: b, forward_s: 1, backward_s: 1, output_bytes: 5EiB, tape_bytes: 4}\n",
       "layer 2 (b).output_bytes is 5EiB, must be a size such as 2GiB or 4096 (bytes)"},
      {"  - {name: b, forward_s: 1, backward_s: 1, output_bytes: 3, tape_bytes: 4, tape_bytes: "
       "5}\n",
       "layers[1].tape_bytes appears twice (first in line 6)"},
      {"  - {name: b, forward_s: 1, backward_s: 1, output_bytes: 2PiB, tape_bytes: 4094PiB}\n",
       "layers[1] brings the sum of all sizes to more than 4 EiB, must be less"}};
  for (const auto& [layer, message] : table)
    EXPECT_EQ(refusal(kHead + kLayer + layer), "c.yaml:6: " + message);
}

TEST(ReadChain, TakesSizesUpToTheLimitOfTheirSum) {
  // 8 (input) + 3 + 4 of the first layer leave 2^62 - 15.
  const std::string most =
      "  - {name: b, forward_s: 0, backward_s: 0, output_bytes: 0, tape_bytes: "
      "4611686018427387889}\n";
  EXPECT_EQ(read(kHead + kLayer + most).layer(2).tape, Bytes(4611686018427387889));
}

TEST(ReadChain, RefusesMoreLayersThanItCanPlan) {
  std::string text = kHead;
  for (int i = 0; i <= kMaxLayers; ++i) text += "  - {}\n";
  EXPECT_EQ(refusal(text), "c.yaml:4: layers has 100001 layers, must have from 1 to 100000");
}

TEST(LoadChain, RefusesAFileOfTenMillionLayersUnread) {
  const support::TemporaryFolder folder;
  const auto file = folder / "c.yaml";
  io::write_file(file, kHead + kLayer);
  std::filesystem::resize_file(file, 10'000'000 * kLayer.size());

  EXPECT_EQ(input_error([&] { load_chain(file); }),
            file.string() + ": is 715 MiB, must be at most 64.0 MiB");
}

TEST(LoadChain, ReadsEveryChainThatComesWithTrireme) {
  const std::filesystem::path folder = TRIREME_SOURCE_DIR "/configs/chains";
  ASSERT_TRUE(std::filesystem::exists(folder)) << folder;
  for (const auto& file : io::expand((folder / "*.yaml").string()))
    EXPECT_NO_THROW(load_chain(file)) << file;
}

TEST(LoadChain, ReadsTenThousandLayers) {
  const support::TemporaryFolder folder;
  Chain chain{.name = "deep", .input = Bytes(1), .layers = {}};
  for (int i = 0; i < 10'000; ++i)
    chain.layers.push_back(layer_with("block." + std::to_string(i), i));

  io::write_file(folder / "c.yaml", to_yaml(chain));

  EXPECT_EQ(load_chain(folder / "c.yaml"), chain);
}

// They are printed, in tables and in lines of their own.
TEST(ReadChain, RefusesNamesWithControlCharacters) {
  const std::string layers = "input_bytes: 8\nlayers:\n" + kLayer;
  for (const char* const name : {"\\e[2J", "a\\nb", "\\a", "\\x9b31m", "\\u202e"}) {
    const std::string quoted = concat('"', name, '"');
    EXPECT_THAT(refusal(concat("format: trireme-chain/1\nname: ", quoted, "\n", layers)),
                testing::HasSubstr("c.yaml:2: name holds a control character"));
    EXPECT_THAT(refusal(concat(kHead, "  - {name: ", quoted,
                               ", forward_s: 1, backward_s: 2, output_bytes: 3, tape_bytes: 4}\n")),
                testing::HasSubstr("name holds a control character"));
  }
  EXPECT_EQ(read(concat("format: trireme-chain/1\nname: \"r\u00e9seau \\u5c42\"\n", layers)).name,
            "r\u00e9seau \u5c42");
}

}  // namespace
}  // namespace trireme::chain
