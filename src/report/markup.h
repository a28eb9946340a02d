// Elements of HTML and SVG, and the frame of a page. Everything is closed and escaped, so that a
// page is also well-formed XML.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::report {

using Attributes = std::initializer_list<std::pair<std::string_view, std::string>>;

/// Text as content or as an attribute's value.
std::string escaped(std::string_view text);

/// `<name key="value">content</name>`; values are escaped, content is not.
std::string element(std::string_view name, Attributes attributes, std::string_view content = "");

/// A length in pixels, to a tenth.
std::string pixels(double length);

/// The tooltip of the element that it stands in.
std::string title(std::string_view text);

/// Text with its anchor at (x, y): `how` names its classes, "tick end" for instance.
std::string label(double x, double y, std::string_view how, std::string_view text);
std::string line(double x1, double y1, double x2, double y2, std::string_view how);
/// Any outline: `steps` is the path's data.
std::string path(std::string_view steps, std::string_view how, std::string_view inside = "");

/// A picture of its own size that shrinks with the window a little, and then is scrolled.
std::string svg(double width, double height, std::string_view name, std::string_view content);

/// A table: the first row is its head. Cells are text; what looks like a number stands right.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

/// The rows without the columns in which no row has anything: "", "-", "none", or a zero of any
/// unit.
std::vector<std::vector<std::string>> without_empty_columns(
    std::vector<std::vector<std::string>> rows);

/// A whole page: light or dark as its reader's system is, no script, nothing from outside.
std::string page(std::string_view name, std::string_view body);

}  // namespace trireme::report
