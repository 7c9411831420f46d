// Parses lines "target number:value number:value ... # comment", the data format of LIBSVM and svmlight.
#pragma once

#include <cstdint>
#include <vector>

namespace mercer {

struct SvmlightRows {
    std::vector<double> targets;
    std::vector<int64_t> ends;     // entries before each row, and last their number: n_rows + 1 elements
    std::vector<int32_t> columns;  // they rise within a row
    std::vector<double> values;
    int64_t largest_column = -1;
    bool fits_float = true;  // whether float32 holds all values exactly
    int64_t fault = -1;      // first byte of the first line that is not of the form; parsing ends there
};

// Feature number j is column j - first. Lines without a target are skipped, and so are cells "qid:...". NaN, infinity
// and numbers that overflow are values like others.
SvmlightRows parse_svmlight(const char* text, int64_t size, int64_t first);

}  // namespace mercer
