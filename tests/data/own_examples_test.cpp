// Examples that a calling program hands over.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/own_examples.h"

#include "support/input_error.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace trireme::data {
namespace {

using support::input_error;

const ExampleShape kTokens{.input = "tokens", .inputs = 3, .classes = 100};
const ExampleShape kVectors{.input = "vectors", .inputs = 2, .classes = 4};

class Given final : public OwnExamples {
 public:
  Given(std::int64_t size, std::function<Example(std::int64_t)> make)
      : size_(size), make_(std::move(make)) {}
  std::int64_t size() const override { return size_; }
  Example example(std::int64_t number) const override { return make_(number); }
  std::string name() const override { return "Given"; }

 private:
  std::int64_t size_;
  std::function<Example(std::int64_t)> make_;
};

/// Example n is n, n, n with the targets n + 1.
Example three(std::int64_t number) {
  return {at::full({3}, number, at::kLong), at::full({3}, number + 1, at::kLong)};
}

std::unique_ptr<Dataset> tokens(std::int64_t size, double validation = 0.25,
                                std::function<Example(std::int64_t)> make = three) {
  return make_own(std::make_unique<Given>(size, std::move(make)), kTokens, validation, 1);
}

std::multiset<std::int64_t> firsts(const at::Tensor& rows) {
  std::multiset<std::int64_t> numbers;
  for (std::int64_t row = 0; row < rows.size(0); ++row)
    numbers.insert(rows[row][0].item<std::int64_t>());
  return numbers;
}

TEST(OwnExamples, AreEachDrawnOnceInAnEpochAndNeverTrainedOnIfOfTheValidationPart) {
  const auto dataset = tokens(40);
  ASSERT_EQ(dataset->train_examples(), 30);
  ASSERT_EQ(dataset->validation_examples(), 10);

  const auto trained = firsts(dataset->train(0, 30).input);
  const auto again = firsts(dataset->train(30, 30).input);
  const auto held_out = firsts(dataset->validation(0, 10, 10).input);

  EXPECT_EQ(trained, again);
  std::multiset<std::int64_t> all = trained;
  all.insert(held_out.begin(), held_out.end());
  std::multiset<std::int64_t> expected;
  for (std::int64_t n = 0; n < 40; ++n) expected.insert(n);
  EXPECT_EQ(all, expected);
}

TEST(OwnExamples, OfAValidationSetOfTheirOwnAreNotTrainedOnAndNoOthersAreValidated) {
  const auto make = [](const std::function<Example(std::int64_t)>& validated) {
    return make_own(std::make_unique<Given>(20, three), std::make_unique<Given>(4, validated),
                    kTokens, 1);
  };
  const auto from_50 = [](std::int64_t number) { return three(50 + number); };
  const auto dataset = make(from_50);
  ASSERT_EQ(dataset->train_examples(), 20);
  ASSERT_EQ(dataset->validation_examples(), 4);

  std::multiset<std::int64_t> all;
  for (std::int64_t n = 0; n < 20; ++n) all.insert(n);
  EXPECT_EQ(firsts(dataset->train(0, 20).input), all);
  EXPECT_EQ(firsts(dataset->validation(0, 4, 4).input),
            (std::multiset<std::int64_t>{50, 51, 52, 53}));
  EXPECT_EQ(dataset->digest(), make(from_50)->digest());
  EXPECT_NE(dataset->digest(), make(three)->digest());
  EXPECT_NE(dataset->digest(), tokens(20, 0.2)->digest());

  const auto wrong = make([](std::int64_t number) { return three(number < 3 ? number : 200); });
  EXPECT_EQ(input_error([&] { wrong->validation(0, 4, 4); }),
            "example 3 of Given has 200 in its input, must be 0 to 99: the model has 100 classes");
}

TEST(OwnExamples, AreTheSameForEveryWayToAskForThem) {
  const auto dataset = tokens(40);
  const MicroBatch whole = dataset->train(4, 6);

  EXPECT_TRUE(at::equal(dataset->train(6, 2).input, whole.input.slice(0, 2, 4)));
  EXPECT_TRUE(at::equal(dataset->train_target(4, 6), whole.target));
  EXPECT_TRUE(at::equal(whole.target, whole.input + 1));
  EXPECT_TRUE(at::equal(tokens(40)->train(4, 6).input, whole.input));
}

TEST(OwnExamples, OfOtherTypesAreConverted) {
  const auto dataset =
      make_own(std::make_unique<Given>(
                   4,
                   [](std::int64_t n) {
                     return Example{at::full({2}, n, at::kByte), at::scalar_tensor(n, at::kInt)};
                   }),
               kVectors, 0, 1);
  const MicroBatch batch = dataset->train(0, 4);

  EXPECT_EQ(batch.input.scalar_type(), at::kFloat);
  EXPECT_EQ(batch.target.scalar_type(), at::kLong);
  EXPECT_TRUE(at::equal(batch.input.select(1, 0).to(at::kLong), batch.target));
}

TEST(OwnExamples, OfOtherValuesHaveAnotherDigest) {
  const auto changed = [](std::int64_t n) { return three(n == 7 ? 8 : n); };

  EXPECT_EQ(tokens(40)->digest(), tokens(40)->digest());
  EXPECT_NE(tokens(40, 0.25, changed)->digest(), tokens(40)->digest());
  EXPECT_NE(tokens(41)->digest(), tokens(40)->digest());
}

std::string refusal(const std::function<Example(std::int64_t)>& make) {
  try {
    tokens(1, 0, make)->train(0, 1);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(OwnExamples, ThatDoNotFitTheModelAreNamed) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal([](auto n) {
                return Example{three(n).input.slice(0, 1), three(n).target};
              }),
              HasSubstr("example 0 of Given has the input Long [2], must be of integers [3]"));
  EXPECT_THAT(refusal([](auto n) {
                return Example{three(n).input.to(at::kFloat), three(n).target};
              }),
              HasSubstr("has the input Float [3], must be of integers [3]"));
  EXPECT_THAT(refusal([](auto n) {
                return Example{three(n).input, three(n).target + 99};
              }),
              HasSubstr("example 0 of Given has 100 in its target, must be 0 to 99"));
  EXPECT_THAT(refusal([](auto n) {
                return Example{three(n).input - 1, three(n).target};
              }),
              HasSubstr("has -1 in its input"));
  EXPECT_THROW(tokens(0), InputError);
}

/// Example n has n targets that count, of three.
Example with_masks(std::int64_t number) {
  Example example = three(number);
  for (std::int64_t i = number; i < 3; ++i) example.target[i] = kMasked;
  return example;
}

std::unique_ptr<Dataset> masked(std::int64_t size, std::function<Example(std::int64_t)> make) {
  ExampleShape shape = kTokens;
  shape.takes_masks = true;
  return make_own(std::make_unique<Given>(size, std::move(make)), shape, 0.25, 1);
}

TEST(OwnExamples, WeighTargetsOfAStepAlikeWhereSomeAreMasked) {
  const auto dataset = masked(8, [](std::int64_t number) { return with_masks(1 + number % 3); });
  const BatchShape shape{.batch = 6, .micro_batch = 2};
  std::int64_t counted = 0;
  for (const std::int64_t m : {0, 1, 2})
    counted += at::sum(at::ne(train_target(*dataset, shape, 0, m).at(0), kMasked)).item().toLong();
  EXPECT_EQ(dataset->train_counted(0, 6), counted);
  EXPECT_LT(counted, 18);
  for (const std::int64_t m : {0, 1, 2})
    EXPECT_FLOAT_EQ(train_target(*dataset, shape, 0, m).at(1).item<float>(),
                    3.F / static_cast<float>(counted));
}

TEST(OwnExamples, AreAskedTwiceForAStepWhoseTargetsMayBeMasked) {
  int asked = 0;
  const auto dataset = masked(8, [&](std::int64_t) { return ++asked, with_masks(2); });
  for (const std::int64_t m : {0, 1, 2})
    (void)train_target(*dataset, {.batch = 6, .micro_batch = 2}, 0, m);
  EXPECT_EQ(asked, 12);
}

TEST(OwnExamples, OfOtherModelsHaveNoWeights) {
  EXPECT_EQ(tokens(8)->train_counted(0, 4), std::nullopt);
  EXPECT_EQ(tokens(8)->validation_counted(0, 4, 4), std::nullopt);
}

TEST(OwnExamples, AreRefusedWhereMasksCannotBe) {
  const auto refusal = [](const std::unique_ptr<Dataset>& dataset) -> std::string {
    try {
      (void)dataset->train(0, 1);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const auto two = [](std::int64_t) { return with_masks(2); };
  EXPECT_THAT(refusal(tokens(8, 0.25, two)), testing::HasSubstr("has masked targets (-100)"));
  EXPECT_THAT(refusal(masked(8, [](std::int64_t) { return with_masks(0); })),
              testing::HasSubstr("has only masked targets (-100), of which nothing is learned"));
  const auto beyond = [](std::int64_t) {
    Example example = with_masks(2);
    example.target[0] = 100;
    return example;
  };
  EXPECT_THAT(refusal(masked(8, beyond)), testing::HasSubstr("has 100 in its target"));
}

}  // namespace
}  // namespace trireme::data
