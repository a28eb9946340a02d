// The chains and platforms under configs/: that they can be read, and have the published sizes.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::chain {
namespace {

const std::filesystem::path kConfigs = TRIREME_SOURCE_DIR "/configs";

Chain example_chain(const std::string& name) {
  return load_chain(kConfigs / "chains" / (name + ".yaml"));
}

Platform example_platform(const std::string& name) {
  return load_platform(kConfigs / "platforms" / (name + ".yaml"));
}

/// Names of the YAML files of a folder, in order.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs / folder)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Gradients weigh `item` bytes each.
std::int64_t parameters(const Chain& chain, int item) {
  Bytes sum;
  for (const LayerCost& layer : chain.layers) sum += layer.gradients;
  return sum.count() / item;
}

TEST(ExampleChains, AreThese) {
  EXPECT_EQ(names_in("chains"),
            (std::vector<std::string>{"densenet-121", "gpt-1.3b", "gpt-13b", "gpt-13b-lora",
                                      "gpt-175b", "gpt-7b", "gpt2-1.5b", "gpt2-124m", "resnet-152",
                                      "resnet-50", "vgg-16"}));
}

TEST(ExampleChains, HaveCostsThatALayerCanHave) {
  for (const std::string& name : names_in("chains")) {
    const Chain chain = example_chain(name);
    EXPECT_EQ(chain.name, name);
    for (int i = 1; i <= chain.length(); ++i) {
      const LayerCost& layer = chain.layer(i);
      const Bytes gradient = i == 1 ? Bytes(0) : chain.output(i - 1);  // x[0] has none
      SCOPED_TRACE(name + ": " + layer.name);
      EXPECT_GT(layer.forward, Seconds(0));
      if (layer.frozen == Bytes(0)) {
        EXPECT_GT(layer.backward, layer.forward);
      }
      EXPECT_GE(layer.tape, layer.output);
      EXPECT_GT(layer.output, Bytes(0));
      EXPECT_GE(layer.backward_transient, gradient);
    }
  }
}

/// Narayanan et al. 2021, equation 2, times out, and the last layer norm.
std::int64_t gpt_parameters(std::int64_t blocks, std::int64_t width, std::int64_t context) {
  const std::int64_t vocabulary = 50257;
  return blocks * (12 * width * width + 13 * width) + (vocabulary + context) * width + 2 * width;
}

TEST(ExampleChains, HaveAsManyParametersAsTheirGptAndACopyOfTheTiedOnes) {
  struct Gpt {
    std::string name;
    std::int64_t blocks, width, context;
    double published, rounding;  // billions, as printed by Radford et al. 2019, Brown et al. 2020
  };
  // Radford et al. print 117M and 1542M; the released weights have 124,439,808 and 1,557,611,200.
  for (const Gpt& gpt :
       {Gpt{"gpt2-124m", 12, 768, 1024, 0.124439808, 0},
        Gpt{"gpt2-1.5b", 48, 1600, 1024, 1.557611200, 0},
        Gpt{"gpt-1.3b", 24, 2048, 2048, 1.3, 0.05}, Gpt{"gpt-7b", 32, 4096, 2048, 6.7, 0.05},
        Gpt{"gpt-13b", 40, 5140, 2048, 13.0, 0.05}, Gpt{"gpt-175b", 96, 12288, 2048, 175.0, 0.5}}) {
    SCOPED_TRACE(gpt.name);
    const std::int64_t found = parameters(example_chain(gpt.name), 2) - 50257 * gpt.width;

    EXPECT_EQ(found, gpt_parameters(gpt.blocks, gpt.width, gpt.context));
    EXPECT_NEAR(static_cast<double>(found) / 1e9, gpt.published, gpt.rounding + 1e-12);
  }
}

TEST(ExampleChains, HaveAdaptersBesideTheirFrozenGpt) {
  const Chain chain = example_chain("gpt-13b-lora");
  const std::int64_t blocks = 40, width = 5140, rank = 16;
  Bytes frozen, all;
  for (const LayerCost& layer : chain.layers) {
    frozen += layer.frozen;
    all += layer.parameters;
  }
  EXPECT_EQ(frozen, Bytes(2 * (gpt_parameters(blocks, width, 2048) + 50257 * width)));
  // Products from w to 3w, w to w, w to 4w and 4w to w.
  EXPECT_EQ(parameters(chain, 2), blocks * rank * 16 * width);
  EXPECT_EQ(all - frozen, Bytes(2 * parameters(chain, 2)));
  // In addition to input, output and q, k, v: the two products' inputs and what adapters make of
  // them, the norm's statistics and the log-sum-exp.
  const std::int64_t rows = 2048;
  EXPECT_EQ(chain.layer(4).tape,
            Bytes(2 * rows * (6 * width + 2 * rank) + rows * (2 * 4 + 40 * 4)));
  EXPECT_EQ(chain.layer(1).gradients, Bytes(0));
  EXPECT_EQ(chain.layer(1).backward, Seconds(0));
}

TEST(ExampleChains, HaveAsManyParametersAsTheirImageNetwork) {
  // Counts of torchvision's models.
  EXPECT_EQ(parameters(example_chain("resnet-50"), 4), 25'557'032);
  EXPECT_EQ(parameters(example_chain("resnet-152"), 4), 60'192'808);
  EXPECT_EQ(parameters(example_chain("vgg-16"), 4), 138'357'544);
  EXPECT_EQ(parameters(example_chain("densenet-121"), 4), 7'978'856);
}

TEST(ExampleChains, KeepOfATransformerBlockWhatKorthikantiCounts) {
  const Chain chain = example_chain("gpt2-124m");
  ASSERT_EQ(chain.layer(2).name, "block0.attention");
  ASSERT_EQ(chain.layer(3).name, "block0.mlp");

  // Korthikanti et al. 2022, section 4.1: sbh (34 + 5 a s / h). Fused attention keeps no scores,
  // and without dropout there are no two masks of one byte: 32 sbh. The paper leaves out the
  // statistics of the norms (two of 8 bytes per row) and the log-sum-exp (4 bytes per row and
  // head).
  const std::int64_t rows = 8 * 1024, width = 768, heads = 12;
  EXPECT_EQ(chain.layer(2).tape + chain.layer(3).tape,
            Bytes(32 * rows * width + rows * (2 * 8 + 4 * heads)));
}

TEST(ExampleChains, KeepTheTensorsOfABottleneck) {
  const Chain chain = example_chain("resnet-50");
  ASSERT_EQ(chain.layer(3).name, "stage1.block1");

  // 32 images of 56 x 56 in float32: 401,408 bytes per channel. Two convolutions with 64 channels,
  // before and after their norm; the third with 256, before, and the output; the norms' statistics.
  EXPECT_EQ(chain.layer(3).output, Bytes(256 * 401'408));
  EXPECT_EQ(chain.layer(3).tape, Bytes((4 * 64 + 2 * 256) * 401'408 + (64 + 64 + 256) * 8));
}

TEST(ExampleChains, HandOnTheConcatenationOfADenseLayer) {
  const Chain chain = example_chain("densenet-121");
  ASSERT_EQ(chain.layer(3).name, "block1.layer1");

  EXPECT_EQ(chain.output(1), Bytes(64 * 401'408));
  EXPECT_EQ(chain.output(2), Bytes(96 * 401'408));
  EXPECT_EQ(chain.output(3), Bytes(128 * 401'408));
}

const std::vector<std::string> kLarge{"h100-80-infiniband-32", "h100-80-infiniband-64",
                                      "h100-80-nvlink-8", "mixed-pair", "pcie-24-8"};
const std::vector<std::string> kSmall{"jetson-tx2", "mkr1000", "nrf52840", "raspberry-pi-4b"};

TEST(ExamplePlatforms, AreFiveLargeAndFourSmallOnes) {
  std::vector<std::string> all = kLarge;
  all.insert(all.end(), kSmall.begin(), kSmall.end());
  EXPECT_THAT(names_in("platforms"), testing::UnorderedElementsAreArray(all));
}

TEST(ExamplePlatforms, HaveLargeRanksThatCanOffload) {
  for (const std::string& name : kLarge) {
    SCOPED_TRACE(name);
    for (const RankSpec& rank : example_platform(name).ranks) {
      EXPECT_GT(rank.memory, Bytes(20'000'000'000));
      EXPECT_GT(rank.host, rank.memory);
      EXPECT_GT(rank.disk, rank.host);
      EXPECT_GE(rank.out, BytesPerSecond(25e9));
      EXPECT_GE(rank.in, BytesPerSecond(25e9));
    }
  }
}

/// A row of the table of chips published with POET (ICML 2022): page-in and page-out, watts of
/// copies; memory as in the paper's table of platforms.
struct Chip {
  std::string name;
  std::int64_t memory;
  double in_latency, in_rate, out_latency, out_rate, copy_watts;
};

TEST(ExamplePlatforms, CopyAsThePublishedChips) {
  for (const Chip& chip :
       {Chip{"mkr1000", 32 << 10, 1.09e-4, 4.617e6, 1.13e-4, 4.44e6, 0.33},
        Chip{"nrf52840", 256 << 10, 1.09e-4, 4.617e6, 1.13e-4, 4.44e6, 0.33},
        Chip{"raspberry-pi-4b", std::int64_t{2} << 30, 5.096e-6, 45.5e6, 1.853e-5, 24.5e6, 0.15},
        Chip{"jetson-tx2", std::int64_t{8} << 30, 5.4e-4, 108.5e6, 2.396e-3, 94.37e6, 0.309}}) {
    SCOPED_TRACE(chip.name);
    const std::vector<RankSpec> ranks = example_platform(chip.name).ranks;
    ASSERT_EQ(ranks.size(), 1U);
    EXPECT_EQ(ranks[0].memory, Bytes(chip.memory));
    EXPECT_EQ(ranks[0].offload_capacity(), Bytes(32'000'000'000));
    EXPECT_DOUBLE_EQ(ranks[0].in_latency.count(), chip.in_latency);
    EXPECT_DOUBLE_EQ(ranks[0].in.count(), chip.in_rate);
    EXPECT_DOUBLE_EQ(ranks[0].out_latency.count(), chip.out_latency);
    EXPECT_DOUBLE_EQ(ranks[0].out.count(), chip.out_rate);
    EXPECT_EQ(ranks[0].power.copy_in, Watts(chip.copy_watts));
    EXPECT_EQ(ranks[0].power.copy_out, Watts(chip.copy_watts));
  }
}

TEST(ExamplePlatforms, ComputeWithTheWattsOfTheirFlops) {
  for (const char* const name : {"mkr1000", "nrf52840", "jetson-tx2"}) {
    const RankSpec rank = example_platform(name).ranks.front();
    const double watts = rank.flops.count() / rank.flops_energy.count();
    EXPECT_NEAR(watts / rank.power.busy.count(), 1, 1e-3) << name;
  }
  // The published figures of this board do not agree, as its file says.
  const RankSpec pi = example_platform("raspberry-pi-4b").ranks.front();
  EXPECT_NEAR(pi.flops.count() / pi.flops_energy.count() / pi.power.busy.count(), 16.6, 0.05);
}

TEST(ExamplePlatforms, HaveTheRanksOfTheirNames) {
  EXPECT_EQ(example_platform("h100-80-nvlink-8").ranks.size(), 8U);
  EXPECT_EQ(example_platform("pcie-24-8").ranks.size(), 8U);
  const std::vector<RankSpec> pair = example_platform("mixed-pair").ranks;
  ASSERT_EQ(pair.size(), 2U);
  EXPECT_EQ(pair[1].speed, pair[0].speed / 2);
  EXPECT_LT(pair[1].memory, pair[0].memory);
}

TEST(ExamplePlatforms, LeaveANodeOverTheSlowerLink) {
  const LinkSpec nvlink = example_platform("h100-80-nvlink-8").default_link;
  for (const int count : {32, 64}) {
    SCOPED_TRACE(count);
    const Platform platform = example_platform("h100-80-infiniband-" + std::to_string(count));

    ASSERT_EQ(platform.ranks.size(), static_cast<std::size_t>(count));
    EXPECT_LT(nvlink.time(Bytes(1)), platform.default_link.time(Bytes(1)));
    EXPECT_LT(platform.default_link.rate, nvlink.rate);
    for (int a = 0; a < count; ++a) {
      for (int b = a + 1; b < count; ++b) {
        EXPECT_EQ(platform.link(a, b), a / 8 == b / 8 ? nvlink : platform.default_link)
            << a << " to " << b;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::chain
