#include "files/svmlight.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace mercer {
namespace {

constexpr int64_t kMaxNumber = std::numeric_limits<int32_t>::max();  // LIBSVM reads numbers as int
constexpr int kExactDigits = 15;                                     // of a whole number that a double holds exactly
constexpr double kTens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

bool is_blank(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r' && byte != '\n'); }
bool ends_cell(char byte) { return is_blank(byte) || byte == '\n' || byte == '#'; }
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// Whether the bytes are these letters in any case.
bool spells(const char* at, const char* end, const char* word) {
    for (; at < end && *word != 0; ++at, ++word)
        if ((*at | 0x20) != *word) return false;
    return at == end && *word == 0;
}

// Reads a number that the short way below does not: with many digits, a large exponent, or in words.
bool read_long_number(const char* at, const char* end, double& value) {
    const char* begin = at;
    const bool is_negative = *at == '-';
    if (at < end && (*at == '+' || *at == '-')) ++at;
    const bool is_infinite = spells(at, end, "inf") || spells(at, end, "infinity");
    if (is_infinite || spells(at, end, "nan")) {
        value = is_infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
        if (is_negative) value = -value;
        return true;
    }
    if (at == end || !(is_digit(*at) || *at == '.')) return false;
    for (const char* byte = at; byte < end; ++byte)
        if (!(is_digit(*byte) || *byte == '.' || *byte == '+' || *byte == '-' || *byte == 'e' || *byte == 'E'))
            return false;
#if defined(__cpp_lib_to_chars)
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error == std::errc{}) {
        if (is_negative) value = -value;
        return stop == end;
    }
    if (error != std::errc::result_out_of_range) return false;
#endif
    const std::string copy(begin, end);
    char* last = nullptr;
    value = std::strtod(copy.c_str(), &last);
    return last == copy.c_str() + copy.size();
}

// Reads digits with a point, and an exponent, if its value is one exact product or quotient: then it is rounded once.
bool read_number(const char* at, const char* end, double& value) {
    const char* begin = at;
    if (at == end) return false;
    const bool is_negative = *at == '-';
    if (*at == '+' || *at == '-') ++at;
    uint64_t digits = 0;
    int count = 0, exponent = 0;
    const char* start = at;
    for (; at < end && is_digit(*at); ++at) digits = 10 * digits + static_cast<uint64_t>(*at - '0');
    count = static_cast<int>(std::min<int64_t>(at - start, 100));
    if (at < end && *at == '.') {
        const char* point = ++at;
        for (; at < end && is_digit(*at); ++at) digits = 10 * digits + static_cast<uint64_t>(*at - '0');
        exponent = -static_cast<int>(std::min<int64_t>(at - point, 100));
        count -= exponent;
    }
    if (count == 0 || count > kExactDigits) return read_long_number(begin, end, value);
    if (at < end && (*at == 'e' || *at == 'E')) {
        ++at;
        const bool is_small = at < end && *at == '-';
        if (at < end && (*at == '+' || *at == '-')) ++at;
        if (end - at < 1 || end - at > 3) return read_long_number(begin, end, value);
        int power = 0;
        for (; at < end && is_digit(*at); ++at) power = 10 * power + (*at - '0');
        exponent += is_small ? -power : power;
    }
    if (at != end || exponent < -22 || exponent > 22) return read_long_number(begin, end, value);
    value = static_cast<double>(digits);
    value = exponent < 0 ? value / kTens[-exponent] : value * kTens[exponent];
    if (is_negative) value = -value;
    return true;
}

class Parser {
  public:
    Parser(const char* text, int64_t size, int64_t first) : at_(text), end_(text + size), first_(first) {
        // A line has about eight bytes for each entry; too small a guess costs copies.
        rows_.columns.reserve(static_cast<std::size_t>(size / 8 + 1));
        rows_.values.reserve(static_cast<std::size_t>(size / 8 + 1));
        rows_.ends.push_back(0);
    }

    SvmlightRows parse() {
        const char* text = at_;
        while (at_ < end_) {
            const char* line = at_;
            if (!read_line()) {
                rows_.fault = line - text;
                break;
            }
            const void* next = at_ < end_ ? std::memchr(at_, '\n', static_cast<std::size_t>(end_ - at_)) : nullptr;
            at_ = next == nullptr ? end_ : static_cast<const char*>(next) + 1;  // behind the comment
        }
        return std::move(rows_);
    }

  private:
    // Reads a line up to its end or its comment; false if it is not of the form.
    bool read_line() {
        skip_blanks();
        if (is_done()) return true;
        double target = 0.0;
        const char* cell = at_;
        if (!read_number(cell, find_end(), target)) return false;
        int64_t last = first_ - 1;
        for (skip_blanks(); !is_done(); skip_blanks())
            if (!read_feature(last)) return false;
        rows_.targets.push_back(target);
        rows_.ends.push_back(static_cast<int64_t>(rows_.values.size()));
        if (last - first_ > rows_.largest_column) rows_.largest_column = last - first_;
        return true;
    }

    bool read_feature(int64_t& last) {
        const char* begin = at_;
        int64_t number = 0;
        for (; at_ < end_ && is_digit(*at_); ++at_) {
            number = 10 * number + (*at_ - '0');
            if (number > kMaxNumber) return false;
        }
        if (at_ == end_ || *at_ != ':' || at_ == begin) {
            at_ = begin;
            const char* end = find_end();
            return end - begin >= 4 && std::memcmp(begin, "qid:", 4) == 0;
        }
        const char* value_begin = ++at_;
        double value = 0.0;
        if (number <= last || !read_number(value_begin, find_end(), value)) return false;
        last = number;
        rows_.columns.push_back(static_cast<int32_t>(number - first_));
        rows_.values.push_back(value);
        rows_.fits_float = rows_.fits_float && is_float(value);
        return true;
    }

    static bool is_float(double value) {
        if (!(value >= -std::numeric_limits<float>::max() && value <= std::numeric_limits<float>::max())) return false;
        return static_cast<double>(static_cast<float>(value)) == value;
    }

    void skip_blanks() {
        while (at_ < end_ && is_blank(*at_)) ++at_;
    }

    // Goes to the end of a cell, and returns it.
    const char* find_end() {
        while (at_ < end_ && !ends_cell(*at_)) ++at_;
        return at_;
    }

    bool is_done() const { return at_ == end_ || *at_ == '\n' || *at_ == '#'; }

    const char* at_;
    const char* end_;
    int64_t first_;
    SvmlightRows rows_;
};

}  // namespace

SvmlightRows parse_svmlight(const char* text, int64_t size, int64_t first) { return Parser(text, size, first).parse(); }

}  // namespace mercer
