// A summary with numbers that can be checked by eye.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/record/summary.h"

namespace trireme::record {

inline RunSummary sample_summary() {
  return {.steps = 300,
          .resumed_after = 100,
          .train_loss = 2.125,
          .train_loss_steps = 10,
          .validation_loss = 2.25,
          .unigram_entropy = 3.125,
          .unigram_cross_entropy = 3.25,
          .tokens_per_s = 12345,
          .step = Seconds(0.5),
          .predicted_step = Seconds(0.4),
          .parameters = {.all = 1839360, .trained = 24576},
          .total = Seconds(150),
          .to_first_step = Seconds(2),
          .parameters_digest = "0123abcd",
          .losses_digest = "89ef4567",
          .ranks = {{.rank = 0,
                     .budget = Bytes(1 << 30),
                     .peak = Bytes(896 << 20),
                     .static_bytes = Bytes(256 << 20),
                     .offloaded_optimizer = Bytes(64 << 20),
                     .offloaded_weights = Bytes(8 << 20),
                     .process = Bytes(1280 << 20),
                     .reserves = DeviceReserves{.allocator = Bytes(1000 << 20),
                                                .workspaces = Bytes(32 << 20),
                                                .others = Bytes(512 << 20),
                                                .gathered = 3},
                     .times = {.forward = Seconds(0.125),
                               .backward = Seconds(0.1875),
                               .recompute = Seconds(0.0625),
                               .update = Seconds(0.0625),
                               .wait = Seconds(0.125),
                               .copy = Seconds(0.02),
                               .copy_wait = Seconds(0.005),
                               .update_wait = Seconds(0.0025)}},
                    {.rank = 1,
                     .peak = Bytes(512),
                     .process = Bytes(2048),
                     .times = {.forward = Seconds(0.25), .backward = Seconds(0.0625)}}},
          .planned = {{.layers = {{1, 5}},
                       .predicted = PlannedRank::Prediction{.peak = Bytes(900 << 20),
                                                            .step = Seconds(0.375),
                                                            .recompute = Seconds(0.04)}},
                      {.layers = {{6, 14}}}}};
}

}  // namespace trireme::record
