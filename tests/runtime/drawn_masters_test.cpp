// Masters of a stage that keeps none: the drawn values, of few layers at a time.
// SPDX-License-Identifier: Apache-2.0
#include "update/drawn_masters.h"

#include "small_runs.h"
#include "state/state_layout.h"
#include "support/input_error.h"
#include "update/optimizer.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>

namespace trireme::runtime {
namespace {

using support::input_error;
using testing::ElementsAreArray;
using testing::HasSubstr;

/// Live bytes of float32 tensors of counted(), over all threads, and their peak.
struct Counted {
  std::atomic<std::int64_t> live{0}, most{0};

  void take(std::int64_t bytes) {
    const std::int64_t now = live += bytes;
    for (std::int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
  }
};

at::Tensor counted(Counted& counts, at::IntArrayRef sizes) {
  const at::Tensor value = at::empty(sizes);
  const auto bytes = static_cast<std::int64_t>(value.nbytes());
  counts.take(bytes);
  return at::from_blob(
      value.mutable_data_ptr(), sizes, [value, bytes, &counts](void*) { counts.live -= bytes; },
      at::TensorOptions(at::kFloat));
}

constexpr std::int64_t kWidth = 48;
constexpr std::int64_t kLayerBytes = 4 * (kWidth * kWidth + kWidth);

class Product : public model::Layer {
 public:
  Product(Counted& counts, const model::Seeds& seeds, const std::string& tie) {
    const at::Generator generator = seeds.of_layer();
    add_parameter("bias", counted(counts, {kWidth}).normal_(0, 1, generator));
    const at::Generator of_weight = tie.empty() ? generator : seeds.of_tie(tie);
    add_parameter("weight", counted(counts, {kWidth, kWidth}).normal_(0, 1, of_weight), tie);
  }
  model::Values forward(const model::Values& input, const model::Context& context) override {
    const at::Tensor y = at::linear(input[0], parameters()[1].value, parameters()[0].value);
    return {context.target.empty() ? y : at::cross_entropy_loss(y, context.target[0])};
  }
};

/// The first and the last layer share their weight.
model::ChainModel products(Counted& counts, int layers) {
  model::ChainModel model{.name = "products", .layers = {}, .input = model::InputKind::kVectors};
  model.input_size = model.classes = kWidth;
  for (int i = 1; i <= layers; ++i)
    model.layers.push_back(
        {.name = concat("product", i),
         .work = 1,
         .build = [&counts, tie = i == 1 || i == layers ? "ends" : ""](const model::Seeds& seeds) {
           return std::make_unique<Product>(counts, seeds, tie);
         }});
  return model;
}

std::vector<int> all_layers(const model::ChainModel& model) {
  std::vector<int> layers(static_cast<std::size_t>(model.length()));
  std::iota(layers.begin(), layers.end(), 1);
  return layers;
}

std::vector<float> numbers_of(const at::Tensor& value) {
  const at::Tensor row = value.detach().contiguous().view(-1);
  return {row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel()};
}

/// Every other row, or the first half of it.
std::vector<Row> some_rows(const std::vector<StageParameter>& parameters) {
  std::vector<Row> rows = whole_rows(parameters);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i % 3 == 0) rows[i] = {};
    if (i % 3 == 1) rows[i].count = rows[i].count / 2 / Row::kAlignment * Row::kAlignment;
  }
  return rows;
}

// The drawn values are known from the recipes.
TEST(DrawnMasters, AreTheValuesThatWereDrawnWhereverTheyAreAndNeverThoseOfAllLayersAtOnce) {
  constexpr int kLayers = 12, kSeed = 7;
  Counted counts;
  const model::ChainModel model = products(counts, kLayers);
  const config::OptimizerSpec spec;
  const std::int64_t state = 3 * kLayers * kLayerBytes;
  for (const bool has_others : {false, true}) {
    for (const Bytes offloaded :
         {Bytes(0), Bytes(1), Bytes(state / 3), Bytes(std::int64_t{1} << 40)}) {
      SCOPED_TRACE(concat(offloaded.count(), has_others ? " of some rows" : ""));
      counts.most = 0;
      Stage stage(model, all_layers(model), kSeed, model::Precision::kBfloat16Weights,
                  c10::DeviceType::CPU, Stage::Masters::kDrawnAgain);
      const auto rows = has_others ? some_rows(stage.parameters()) : whole_rows(stage.parameters());
      StateLayout layout = lay_out_state(spec, stage.parameters(), offloaded, Bytes(9000), rows);
      auto copies = layout.parts.empty() ? nullptr
                                         : std::make_unique<Copies>(tier::OffloadStoreOptions{
                                               .host = layout.room(), .disk = Bytes(0)});
      Optimizer optimizer(spec, stage, std::move(layout), std::move(copies));
      EXPECT_LE(counts.most.load(), 2 * kLayerBytes);
      EXPECT_EQ(counts.live.load(), 0);

      Optimizer::Access state_of(optimizer);
      for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
        const StageParameter& parameter = stage.parameters()[i];
        const auto& recipe = model.layers[static_cast<std::size_t>(parameter.layer - 1)];
        const auto layer = recipe.build(model::Seeds(kSeed, parameter.layer));
        const at::Tensor& drawn =
            layer->parameters()[static_cast<std::size_t>(parameter.index)].value;
        const Row row = state_of.row(i, Optimizer::StateTensor::kValue);
        EXPECT_THAT(numbers_of(state_of.read(i, Optimizer::StateTensor::kValue)),
                    ElementsAreArray(numbers_of(drawn.view(-1).narrow(0, row.begin, row.count))))
            << parameter.name;
        EXPECT_TRUE(at::equal(parameter.weight, drawn.to(at::kBFloat16))) << parameter.name;
      }
    }
  }
}

TEST(DrawnMasters, OfAStageThatKeepsThemAreThose) {
  Counted counts;
  const model::ChainModel model = products(counts, 3);
  const Stage stage(model, {1, 2, 3}, 7, model::Precision::kBfloat16Weights);
  DrawnMasters masters(stage, {});
  for (const StageParameter& parameter : stage.parameters())
    EXPECT_TRUE(masters.of(parameter).is_same(parameter.value));
}

TEST(DrawnMasters, DoNotHideThatTiedWeightsBeginWithOtherValues) {
  Counted counts;
  model::ChainModel model = products(counts, 3);
  model.layers[2].build = [&counts](const model::Seeds&) {
    return std::make_unique<Product>(counts, model::Seeds(8, 3), "ends");
  };
  EXPECT_THAT(input_error([&] {
                Stage(model, {1, 2, 3}, 7, model::Precision::kBfloat16Weights, c10::DeviceType::CPU,
                      Stage::Masters::kDrawnAgain);
              }),
              HasSubstr("the tied weight 'ends' has other initial values in product3/weight than "
                        "in product1/weight"));
}

TEST(BuiltLayers, ComeInOrderAndAtMostAsManyAsAskedForAreBegunAndNotTaken) {
  Counted counts;
  const std::vector<int> numbers{2, 3, 5, 7, 11, 13, 17, 19};
  for (const std::size_t at_once : {1U, 3U, 20U}) {
    counts.most = 0;
    BuiltLayers built(
        numbers,
        [&](int number) { return std::make_unique<Product>(counts, model::Seeds(1, number), ""); },
        at_once);
    for (const int number : numbers) {
      const Product expected(counts, model::Seeds(1, number), "");
      const auto layer = built.next();
      EXPECT_TRUE(at::equal(layer->parameters()[1].value, expected.parameters()[1].value));
    }
    // Plus the one that it is compared with.
    EXPECT_LE(counts.most.load(),
              static_cast<std::int64_t>(std::min(at_once, numbers.size()) + 1) * kLayerBytes);
    EXPECT_THROW(built.next(), LogicError);
  }
}

TEST(BuiltLayers, HandOnWhatABuildThrew) {
  Counted counts;
  const auto build = [&](int number) {
    if (number == 2) throw InputError("layer 2 cannot be built");
    return std::make_unique<Product>(counts, model::Seeds(1, number), "");
  };
  BuiltLayers built({1, 2, 3}, build, 3);
  EXPECT_NE(built.next(), nullptr);
  EXPECT_THAT(input_error([&] { built.next(); }), HasSubstr("layer 2 cannot be built"));
}

}  // namespace
}  // namespace trireme::runtime
