// SPDX-License-Identifier: Apache-2.0
#include "platform/text/plot.h"

#include <cairo/cairo.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numbers>

#include "absl/status/status.h"

// What LeakSanitizer, where it is built in, is not to tell of: fontconfig,
// which Cairo asks for fonts, keeps what it read until the process ends. Nor
// that it did not. The sanitizer is a library, so it has to see them.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern "C" [[gnu::visibility("default")]] const char*
__lsan_default_suppressions() {
  return "leak:libfontconfig";
}
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_options() {
  return "print_suppressions=0";
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

namespace snf {
namespace {

constexpr double kWidth = 1'200;
constexpr double kTitleHeight = 44;
constexpr double kPanelWidth = kWidth / 2;
constexpr double kPanelHeight = 370;  // without legend
constexpr double kLegendRow = 18;
constexpr double kLegendKey = 26;    // before a name
constexpr double kLegendSpace = 18;  // behind it
constexpr double kMarginLeft = 104;  // of a panel, beside its axes
constexpr double kMarginRight = 40;
constexpr double kMarginTop = 40;
constexpr double kMarginBottom = 56;
constexpr double kAxisWidth = kPanelWidth - kMarginLeft - kMarginRight;
constexpr double kFont = 12;

struct Colour {
  double red, green, blue;
};
// Of Okabe and Ito: told apart whatever colours one sees.
constexpr std::array<Colour, 6> kColours = {{{0.00, 0.45, 0.70},
                                             {0.84, 0.37, 0.00},
                                             {0.00, 0.62, 0.45},
                                             {0.80, 0.47, 0.65},
                                             {0.90, 0.62, 0.00},
                                             {0.34, 0.71, 0.91}}};
constexpr Colour kText = {0.15, 0.15, 0.15};

struct CairoFree {
  void operator()(cairo_surface_t* surface) const {
    cairo_surface_destroy(surface);
  }
  void operator()(cairo_t* cairo) const { cairo_destroy(cairo); }
};

// An axis with its values known, and the pixels that it takes.
class Scale {
 public:
  Scale(const Plot::Axis& axis, double first_pixel, double last_pixel)
      : axis_(axis), first_(first_pixel), last_(last_pixel) {}

  bool Has(double value) const {
    return std::isfinite(value) && (!axis_.is_log || value > 0);
  }
  void Take(double value) {
    low_ = is_empty_ ? value : std::min(low_, value);
    high_ = is_empty_ ? value : std::max(high_, value);
    is_empty_ = false;
  }
  void Finish() {
    if (!axis_.is_log) low_ = std::min(low_, 0.0);
    if (low_ < high_) return;
    high_ = axis_.is_log ? low_ * 10 : low_ + 1;
  }
  double PixelOf(double value) const {
    const double share = axis_.is_log
                             ? std::log(value / low_) / std::log(high_ / low_)
                             : (value - low_) / (high_ - low_);
    return first_ + share * (last_ - first_);
  }
  std::vector<double> marks() const {
    // A text is wider than it is high.
    const double apart = first_ < last_ ? 70 : 40;
    const auto count = static_cast<int>(std::abs(last_ - first_) / apart);
    return AxisMarks(low_, high_, axis_.is_log, count);
  }
  std::string TextOf(double value) const {
    return axis_.text ? axis_.text(value) : fmt::format("{:g}", value);
  }

 private:
  const Plot::Axis& axis_;
  double first_;
  double last_;
  double low_ = 0;
  double high_ = 0;
  bool is_empty_ = true;
};

class Painter {
 public:
  explicit Painter(cairo_t* cairo) : cairo_(cairo) {
    cairo_set_source_rgb(cairo_, 1, 1, 1);
    cairo_paint(cairo_);
  }

  enum class At { kLeft, kMiddle, kRight };
  double WidthOf(const std::string& text, double size = kFont,
                 bool bold = false) {
    cairo_select_font_face(
        cairo_, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
        bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo_, size);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_, text.c_str(), &extents);
    return extents.x_advance;
  }
  // `y` is the line that letters stand on.
  void Write(const std::string& text, double x, double y, At at,
             double size = kFont, bool bold = false) {
    const double part = at == At::kLeft ? 0 : at == At::kMiddle ? 0.5 : 1;
    const double width = WidthOf(text, size, bold);
    SetColour(kText);
    cairo_move_to(cairo_, x - part * width, y);
    cairo_show_text(cairo_, text.c_str());
    cairo_new_path(cairo_);  // the text's end is no line's begin
  }
  // From below to above, about the middle of its length.
  void WriteUpwards(const std::string& text, double x, double y) {
    cairo_save(cairo_);
    cairo_translate(cairo_, x, y);
    cairo_rotate(cairo_, -std::numbers::pi / 2);
    Write(text, 0, 0, At::kMiddle);
    cairo_restore(cairo_);
  }
  void Rule(double x0, double y0, double x1, double y1, double grey) {
    SetColour({grey, grey, grey});
    cairo_set_line_width(cairo_, 1);
    cairo_move_to(cairo_, std::round(x0) + 0.5, std::round(y0) + 0.5);
    cairo_line_to(cairo_, std::round(x1) + 0.5, std::round(y1) + 0.5);
    cairo_stroke(cairo_);
  }
  // In the colour of this index; dashed when they are used up.
  void Line(const std::vector<Plot::Point>& pixels, size_t index) {
    SetColour(kColours[index % kColours.size()]);
    const double dash = 2.0 * static_cast<double>(index / kColours.size());
    cairo_set_dash(cairo_, &dash, dash > 0 ? 1 : 0, 0);
    cairo_set_line_width(cairo_, 1.6);
    cairo_set_line_join(cairo_, CAIRO_LINE_JOIN_ROUND);
    for (const Plot::Point& pixel : pixels) {
      cairo_line_to(cairo_, pixel.x, pixel.y);
    }
    cairo_stroke(cairo_);
    cairo_set_dash(cairo_, nullptr, 0, 0);
  }

 private:
  void SetColour(const Colour& colour) {
    cairo_set_source_rgb(cairo_, colour.red, colour.green, colour.blue);
  }

  cairo_t* cairo_;
};

// Where each line stands in the legend, which has rows of the axis's width.
struct LegendPlace {
  double x;
  size_t row;
};
std::vector<LegendPlace> LegendOf(Painter& painter, const Plot& plot) {
  std::vector<LegendPlace> places;
  if (plot.lines.size() < 2) return places;
  double x = 0;
  size_t row = 0;
  for (const Plot::Line& line : plot.lines) {
    const double width = kLegendKey + painter.WidthOf(line.name);
    if (x > 0 && x + width > kAxisWidth) {
      x = 0;
      ++row;
    }
    places.push_back({x, row});
    x += width + kLegendSpace;
  }
  return places;
}

double LegendHeight(Painter& painter, const Plot& plot) {
  const std::vector<LegendPlace> places = LegendOf(painter, plot);
  return places.empty()
             ? 0
             : kLegendRow * static_cast<double>(places.back().row + 1);
}

void DrawLegend(Painter& painter, const Plot& plot, double left, double top) {
  const std::vector<LegendPlace> places = LegendOf(painter, plot);
  for (size_t i = 0; i < places.size(); ++i) {
    const double x = left + places[i].x;
    const double y = top + kLegendRow * static_cast<double>(places[i].row);
    painter.Line({{x, y + 8}, {x + kLegendKey - 6, y + 8}}, i);
    painter.Write(plot.lines[i].name, x + kLegendKey, y + 12,
                  Painter::At::kLeft);
  }
}

void DrawPlot(Painter& painter, const Plot& plot, double left, double top,
              double height) {
  using At = Painter::At;
  const double right = left + kPanelWidth - kMarginRight;
  const double bottom = top + height - kMarginBottom;
  const double y_title = left + 26;
  left += kMarginLeft;
  top += kMarginTop;
  painter.Write(plot.title, left, top - 16, At::kLeft, kFont + 1, true);
  DrawLegend(painter, plot, left, top - 6);
  top += LegendHeight(painter, plot);
  Scale x(plot.x, left, right);
  Scale y(plot.y, bottom, top);
  bool is_empty = true;
  for (const Plot::Line& line : plot.lines) {
    for (const Plot::Point& point : line.points) {
      if (!x.Has(point.x) || !y.Has(point.y)) continue;
      x.Take(point.x);
      y.Take(point.y);
      is_empty = false;
    }
  }
  if (is_empty) {
    painter.Write("nothing to show", (left + right) / 2, (top + bottom) / 2,
                  At::kMiddle);
    return;
  }
  x.Finish();
  y.Finish();
  for (const double mark : x.marks()) {
    const double at = x.PixelOf(mark);
    painter.Rule(at, top, at, bottom, 0.88);
    painter.Write(x.TextOf(mark), at, bottom + 18, At::kMiddle);
  }
  for (const double mark : y.marks()) {
    const double at = y.PixelOf(mark);
    painter.Rule(left, at, right, at, 0.88);
    painter.Write(y.TextOf(mark), left - 8, at + 4, At::kRight);
  }
  painter.Rule(left, bottom, right, bottom, 0.4);
  painter.Rule(left, top, left, bottom, 0.4);
  painter.Write(plot.x.title, (left + right) / 2, bottom + 40, At::kMiddle);
  painter.WriteUpwards(plot.y.title, y_title, (top + bottom) / 2);
  for (size_t i = 0; i < plot.lines.size(); ++i) {
    std::vector<Plot::Point> pixels;
    for (const Plot::Point& point : plot.lines[i].points) {
      if (!x.Has(point.x) || !y.Has(point.y)) continue;
      pixels.push_back({x.PixelOf(point.x), y.PixelOf(point.y)});
    }
    painter.Line(pixels, i);
  }
}

cairo_status_t Append(void* to, const unsigned char* bytes, unsigned count) {
  static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(bytes),
                                        count);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

std::vector<double> AxisMarks(double low, double high, bool is_log, int count) {
  std::vector<double> marks;
  count = std::max(count, 2);
  if (is_log) {
    const double first = std::ceil(std::log10(low) - 1e-9);
    const double last = std::floor(std::log10(high) + 1e-9);
    const double step = std::max(1.0, std::ceil((last - first) / count));
    for (double e = first; e <= last; e += step) {
      marks.push_back(std::pow(10, e));
    }
    return marks;
  }
  const double least = (high - low) / count;
  double step = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (step >= least) break;
    step = std::pow(10, std::floor(std::log10(least))) * factor;
  }
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9;
       ++i) {
    marks.push_back(i == 0 ? 0 : i * step);  // and not -0
  }
  return marks;
}

absl::StatusOr<std::string> DrawPng(const std::string& title,
                                    const std::vector<Plot>& plots) {
  using Surface = std::unique_ptr<cairo_surface_t, CairoFree>;
  using Cairo = std::unique_ptr<cairo_t, CairoFree>;
  const auto surface_of = [](double height) {
    return Surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24,
                                              static_cast<int>(kWidth),
                                              static_cast<int>(height)));
  };
  // Legends say how high the image is to be.
  double panel_height = kPanelHeight;
  const Surface trial = surface_of(1);
  const Cairo trial_cairo(cairo_create(trial.get()));
  Painter measure(trial_cairo.get());
  for (const Plot& plot : plots) {
    panel_height =
        std::max(panel_height, kPanelHeight + LegendHeight(measure, plot));
  }
  const auto rows = static_cast<double>((plots.size() + 1) / 2);
  const Surface surface = surface_of(kTitleHeight + rows * panel_height);
  const Cairo cairo(cairo_create(surface.get()));
  Painter painter(cairo.get());
  painter.Write(title, 24, 30, Painter::At::kLeft, kFont + 4, true);
  for (size_t i = 0; i < plots.size(); ++i) {
    DrawPlot(painter, plots[i], static_cast<double>(i % 2) * kPanelWidth,
             kTitleHeight + static_cast<double>(i / 2) * panel_height,
             panel_height);
  }
  std::string png;
  cairo_status_t status = cairo_status(cairo.get());
  if (status == CAIRO_STATUS_SUCCESS) {
    status = cairo_surface_write_to_png_stream(surface.get(), Append, &png);
  }
  if (status != CAIRO_STATUS_SUCCESS) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot draw: {}", cairo_status_to_string(status)));
  }
  return png;
}

}  // namespace snf
