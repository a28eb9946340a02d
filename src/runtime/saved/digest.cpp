// SPDX-License-Identifier: Apache-2.0
#include "saved/digest.h"

#include "saved/checkpoint_reader.h"
#include "state/built_buffers.h"
#include "state/tensor_bytes.h"

#include "trireme/core/digest.h"
#include "trireme/core/text.h"

#include <ATen/ATen.h>

#include <map>
#include <sstream>
#include <utility>

namespace trireme::runtime {

ParametersDigest parameters_digest(comm::Channel& channel, const Position& position,
                                   const Stage& stage, Reducer& reducer, Optimizer& optimizer) {
  std::ostringstream mine;
  mine.exceptions(std::ios::badbit);  // on out of memory
  ParametersDigest result;
  Optimizer::Access state(optimizer);
  for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
    const StageParameter& parameter = stage.parameters()[i];
    if (!reducer.is_first_use(parameter)) continue;
    at::Tensor value = state.read(i, Optimizer::StateTensor::kValue).cpu();
    const bool has_master = parameter.is_trained && parameter.weight.scalar_type() != at::kFloat;
    if (has_master && reducer.shards().is_divided(i)) value = reducer.shards().whole(i, value);
    if (result.lost.empty()) {
      result.found = no_number_in(value, /*is_constant=*/!parameter.is_trained);
      if (!result.found.empty()) result.lost = concat(kParameters, parameter.name);
    }
    mine << parameter.layer << ' ' << parameter.index << ' '
         << digest(value.const_data_ptr(), value.nbytes()) << ' ' << parameter.name << '\n';
  }
  const auto all =
      comm::all_gather(channel, position.pipeline_group(), mine.str(), "digest of the parameters");
  std::map<std::pair<int, int>, std::string> in_chain_order;
  for (const std::string& text : all) {
    std::istringstream lines(text);
    lines.exceptions(std::ios::badbit);
    std::pair<int, int> place;
    std::string rest;
    while (lines >> place.first >> place.second && std::getline(lines, rest))
      in_chain_order[place] = rest;
  }
  std::string whole;
  for (const auto& [place, line] : in_chain_order) whole += line + "\n";
  result.whole = digest(whole);
  return result;
}

std::string weights_digest(Stage& stage) {
  std::string all;
  for (const StageParameter& parameter : stage.parameters()) {
    if (parameter.is_streamed) stage.weights()->bring(parameter.layer);
    all += digest_of(parameter.weight) + '\n';
  }
  if (stage.weights() != nullptr) stage.weights()->close();
  return digest(all);
}

}  // namespace trireme::runtime
