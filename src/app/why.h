// What a plan rests on, as `trireme plan --why` prints it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/planner.h"

#include <string>

namespace trireme::app {

/// A row for every axis of the search with the fastest step without it (an ablation), then the
/// decisions that were judged: the fastest ten, or with `verbose` all in the order of the search.
std::string why_text(const partition::Explained& explained, bool verbose);

}  // namespace trireme::app
