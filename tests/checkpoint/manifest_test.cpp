// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/manifest.h"

#include "support/input_error.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::checkpoint {
namespace {

using support::input_error;
using testing::HasSubstr;

Manifest sample() {
  return {.step = 300,
          .data = "d",
          .job = "89ab",
          .threads = 3,
          .device = "cpu",
          .vectors = "AVX2",
          .ties = {{"embedding", "embed/token.weight"}},
          .tensors = {{"parameters/a \"b\"/w",
                       {.file = "rank-0.safetensors",
                        .type = "F32",
                        .sizes = {3, 5'000'000'000},
                        .offset = Bytes(128),
                        .size = Bytes(std::int64_t{60'000'000'000}),
                        .digest = "0123"}},
                      {"losses",
                       {.file = "rank-0.safetensors",
                        .type = "F32",
                        .sizes = {},
                        .offset = {},
                        .size = Bytes(4),
                        .digest = "4567",
                        .is_constant = true}}}};
}

TEST(Manifest, ReadsBackAsWritten) {
  EXPECT_EQ(read_manifest(io::parse(to_json(sample()), "manifest")), sample());
  EXPECT_EQ(read_manifest(io::parse(to_json({}), "manifest")), Manifest());
}

Entry part(const std::string& whole, std::int64_t begin, std::int64_t count) {
  return {.file = "rank-0.safetensors",
          .type = "F32",
          .sizes = {count},
          .offset = {},
          .size = Bytes(4 * count),
          .digest = "",
          .part_of = PartOf{.name = whole, .sizes = {3, 4}, .begin = begin}};
}

TEST(Manifest, JoinsTheParts) {
  Manifest manifest = sample();
  // Ordered by their first numbers, not by their names.
  manifest.tensors["m/w[8:12]"] = part("m/w", 8, 4);
  manifest.tensors["m/w[0:8]"] = part("m/w", 0, 8);
  EXPECT_EQ(read_manifest(io::parse(to_json(manifest), "manifest")), manifest);
  const auto tensors = joined(manifest);
  EXPECT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors.at("losses").entries, std::vector<std::string>{"losses"});
  EXPECT_EQ(tensors.at("m/w").sizes, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(tensors.at("m/w").entries, (std::vector<std::string>{"m/w[0:8]", "m/w[8:12]"}));
}

TEST(Manifest, RefusesPartsThatMakeNoWhole) {
  const auto refusal = [](const std::vector<Entry>& parts) {
    Manifest manifest;
    for (const Entry& one : parts) manifest.tensors[concat("p", manifest.tensors.size())] = one;
    return input_error([&] { joined(manifest); });
  };
  Entry other = part("m/w", 8, 4);
  other.type = "BF16";
  EXPECT_EQ(refusal({part("m/w", 0, 8)}), "tensor 'm/w' has 12 numbers, its parts have 8");
  EXPECT_EQ(refusal({part("m/w", 0, 4), part("m/w", 8, 4)}),
            "tensor 'm/w' lacks its numbers from 4 to 8: part 'p1' begins there");
  EXPECT_EQ(refusal({part("m/w", 0, 8), part("m/w", 8, 8)}),
            "tensor 'm/w' has 12 numbers, its parts have 16");
  EXPECT_THAT(refusal({part("m/w", 0, 8), part("m/w", 0, 8)}), HasSubstr("do not belong together"));
  EXPECT_THAT(refusal({part("m/w", 0, 8), other}), HasSubstr("do not belong together"));
}

TEST(Manifest, OfTwoRanksHasTheTensorsOfBoth) {
  Manifest all = sample();
  merge(all, {.ties = {{"t", "x"}}, .tensors = {{"x", {.file = "rank-1.safetensors"}}}});
  EXPECT_EQ(all.tensors.size(), 3U);
  EXPECT_EQ(all.ties.size(), 2U);
  EXPECT_EQ(all.step, 300);
  EXPECT_THAT(input_error([&] { merge(all, sample()); }),
              HasSubstr("two tensors of this model are called 'losses'"));
}

TEST(Manifest, RefusesWhatItDoesNotMean) {
  const std::string text = to_json(sample());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return input_error([&] { read_manifest(io::parse(changed, "manifest")); });
  };
  EXPECT_THAT(with("trireme-checkpoint/1", "trireme-checkpoint/9"),
              HasSubstr("manifest:1: format"));
  EXPECT_THAT(with("\"step\": 300", "\"step\": -1"), HasSubstr("step is -1"));
  EXPECT_THAT(with("rank-0.safetensors", "../rank-0"), HasSubstr("next to the manifest"));
  EXPECT_THAT(with("\"digest\"", "\"digset\""), HasSubstr("tensors[0].digest is missing"));
}

TEST(Manifest, ThatWasChangedIsRefusedUnlessItHasNoDigest) {
  Manifest earlier = sample();
  earlier.job.clear();  // added later than the digest of all
  std::string text = to_json(earlier);
  text.replace(text.find("300"), 3, "301");
  EXPECT_THAT(input_error([&] { read_manifest(io::parse(text, "manifest")); }),
              HasSubstr("digest does not match what is before it: the file was changed"));
  const std::size_t digest = text.rfind(",\n \"digest\"");
  text.erase(digest, text.rfind('}') - digest);
  EXPECT_EQ(read_manifest(io::parse(text, "manifest")).step, 301);

  std::string later = to_json(sample());
  later.erase(later.rfind(",\n \"digest\""), later.rfind('}') - later.rfind(",\n \"digest\""));
  EXPECT_THAT(input_error([&] { read_manifest(io::parse(later, "manifest")); }),
              HasSubstr("digest is missing"));
}

// Any changed bit is found, except spaces between values, which have no meaning.
TEST(Manifest, WithAChangedBitIsRefusedOrTheSame) {
  const Manifest manifest = sample();
  const std::string text = to_json(manifest);
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string changed = text;
    changed[bit / 8] ^= static_cast<char>(1 << bit % 8);
    try {
      ASSERT_EQ(read_manifest(io::parse(changed, "manifest")), manifest) << bit;
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(7 * text.size()));
}

}  // namespace
}  // namespace trireme::checkpoint
