// Documents that are made to exhaust time, stack or memory end in a short message. The memory that
// the process may take is capped, so that a reader that swallows them fails.
// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"
#include "support/trials.h"

#include "trireme/io/node.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

namespace trireme::io {
namespace {

using support::input_error;

/// Caps the address space while it lives; not for a sanitizer, whose shadow memory needs all of it.
class MemoryCap {
 public:
  explicit MemoryCap(rlim_t most) {
    getrlimit(RLIMIT_AS, &old_);
    const rlimit cap{.rlim_cur = most, .rlim_max = old_.rlim_max};
    if (!kIsSanitized) setrlimit(RLIMIT_AS, &cap);
  }
  ~MemoryCap() { setrlimit(RLIMIT_AS, &old_); }
  MemoryCap(const MemoryCap&) = delete;
  MemoryCap& operator=(const MemoryCap&) = delete;

 private:
  rlimit old_{};
};

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string refusal(const std::string& text, const std::string& name = "a.yaml") {
  const MemoryCap cap(rlim_t{1} << 30);
  return input_error([&] { parse(text, name); });
}

const std::string kTooDeep = "lists and maps are nested deeper than 64";
const std::string kTooFar = "no value is complete within 1.00 MiB from here on";
constexpr int kMany = 3'000'000;

TEST(Limits, DeepNestingIsRefused) {
  EXPECT_EQ(refusal(repeated("[", kMany)), "a.yaml:1: " + kTooFar);
  EXPECT_EQ(refusal(repeated("[", 100) + repeated("]", 100)), "a.yaml:1: " + kTooDeep);
  EXPECT_EQ(refusal(repeated("{a: ", kMany)), "a.yaml:1: " + kTooFar);
  EXPECT_EQ(refusal(repeated("- ", kMany)), "a.yaml:1: " + kTooDeep);
  EXPECT_EQ(refusal(repeated("[", kMany), "a.json"), "a.json:1: " + kTooDeep);
  EXPECT_EQ(refusal(repeated("{\"a\":\n", 100), "a.json"), "a.json:65: " + kTooDeep);
}

TEST(Limits, SixtyFourLevelsAreRead) {
  EXPECT_NO_THROW(parse(repeated("[", 64) + repeated("]", 64), "a.yaml"));
  EXPECT_NO_THROW(parse(repeated("[", 64) + repeated("]", 64), "a.json"));
  EXPECT_EQ(refusal(repeated("[", 65) + repeated("]", 65), "a.json"), "a.json:1: " + kTooDeep);
}

TEST(Limits, AValueWithoutEndIsRefused) {
  EXPECT_EQ(refusal("b: 1\na: \"" + std::string(kMany, 'x')), "a.yaml:2: " + kTooFar);
  EXPECT_EQ(refusal(std::string(kMany, 'x')), "a.yaml:1: " + kTooFar);
  EXPECT_EQ(refusal("[[" + repeated("1,", kMany)), "a.yaml:1: " + kTooFar);
  EXPECT_EQ(refusal("a: 1\n" + repeated("#", kMany)), "a.yaml:1: " + kTooFar);
}

// "Billion laughs": nine lists of nine references each to the one before. Nothing is expanded,
// because no reference is read.
TEST(Limits, AliasesCannotMultiply) {
  std::string text = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 30; ++i)
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            ", *a" + std::to_string(i - 1) + "]\n";
  EXPECT_EQ(refusal(text),
            "a.yaml:1: anchors and aliases (&, *) are not supported: write it out, or put text in "
            "quotes");
}

TEST(Limits, TooManyValuesAreRefused) {
  EXPECT_EQ(refusal("[" + repeated("1,", 5'000'000) + "1]", "a.json"),
            "a.json:1: more than 4000000 values");
}

TEST(Limits, ManyKeysAreCheckedQuickly) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(refusal(text + "k7: 2\n"), "a.yaml:100001: k7 appears twice (first in line 8)");
}

}  // namespace
}  // namespace trireme::io
