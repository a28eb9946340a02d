// A model of one's own: a layer in 20 lines, a chain of them, and the whole of Trireme around it.
//
//     build/release/bin/own_layer train examples/own_layer.yaml
//     mpirun -n 2 build/release/bin/own_layer train examples/own_layer.yaml
//
// With `--set threads=1` in both, the same digest.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/app_runtime/run.h"
#include "trireme/core/text.h"
#include "trireme/io/node.h"
#include "trireme/model/chain.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

#include <cmath>

namespace {

using trireme::model::ChainModel;
using trireme::model::Context;
using trireme::model::Layer;
using trireme::model::Seeds;
using trireme::model::Values;

/// x + down(silu(gate(x)) * up(x)), [B, N] to [B, N]: the gated unit of Shazeer 2020 with a
/// residual.
class Gated final : public Layer {
 public:
  Gated(std::int64_t width, double dropout, const Seeds& seeds) : dropout_(dropout) {
    const at::Generator from = seeds.of_layer();
    const double deviation = 1 / std::sqrt(static_cast<double>(width));
    gate_ = add_parameter("gate", trireme::model::normal({width, width}, deviation, from));
    up_ = add_parameter("up", trireme::model::normal({width, width}, deviation, from));
    down_ = add_parameter("down", trireme::model::normal({width, width}, deviation, from));
  }
  Values forward(const Values& input, const Context& context) override {
    const at::Tensor& x = input[0];
    const at::Tensor hidden = at::silu(at::linear(x, gate_)) * at::linear(x, up_);
    return {x + trireme::model::dropout(at::linear(hidden, down_), dropout_, context)};
  }

 private:
  double dropout_;
  at::Tensor gate_, up_, down_;
};

/// The last layer includes the loss.
class Loss final : public Layer {
 public:
  Loss(std::int64_t width, std::int64_t classes, const Seeds& seeds) {
    weight_ =
        add_parameter("weight", trireme::model::normal({classes, width}, 0.02, seeds.of_layer()));
  }
  Values forward(const Values& input, const Context& context) override {
    return {at::cross_entropy_loss(at::linear(input[0], weight_), context.target[0])};
  }

 private:
  at::Tensor weight_;
};

/// `model: {kind: gated, width: 64, layers: 6, classes: 10, dropout: 0.1}`
ChainModel make_gated(const trireme::io::Node& section) {
  trireme::io::MapReader map(section);
  map.required("kind");
  const std::int64_t width = map.required("width").integer(1, 100'000);
  const std::int64_t layers = map.required("layers").integer(1, 1000);
  const std::int64_t classes = map.required("classes").integer(2, 1'000'000);
  const double dropout = map.required("dropout").number(0, 0.9);
  map.finish();

  ChainModel model{.name = "gated",
                   .layers = {},
                   .input = trireme::model::InputKind::kVectors,
                   .input_size = width,
                   .classes = classes};
  for (std::int64_t i = 0; i < layers; ++i) {
    model.layers.push_back(
        {trireme::concat("gated", i), 3.0 * static_cast<double>(width * width),
         [=](const Seeds& seeds) { return std::make_unique<Gated>(width, dropout, seeds); }});
  }
  model.layers.push_back({"loss", static_cast<double>(width * classes), [=](const Seeds& seeds) {
                            return std::make_unique<Loss>(width, classes, seeds);
                          }});
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  return trireme::app::run(argc, argv, {{"gated", make_gated}});
}
