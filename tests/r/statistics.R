#!/usr/bin/env Rscript
# SPDX-License-Identifier: MIT
#
# Writes R's own answers for the data sets below as a C header, on standard output:
#
#   Rscript tests/r/statistics.R >tests/r/statistics_values.h
#
# tests/unit/statistics.c compares the tool with it; `make check-r` runs this again and compares the stored
# header with what R says today. Base R only. The data are written with the answers, 17 digits each, so
# both sides compute from the same doubles whatever R's generator does.

set.seed(20260101, kind = "Mersenne-Twister", normal.kind = "Inversion", sample.kind = "Rejection")

cases <- list(
    # Buffer-creation rates of one arm against another, about as noisy as a shared machine.
    twenty_rounds    = list(new = rnorm(20, 104, 5), old = rnorm(20, 100, 5)),
    no_difference    = list(new = rnorm(20, 100, 3), old = rnorm(20, 100, 3)),
    unequal_variance = list(new = rnorm(12, 100, 20), old = rnorm(12, 110, 1)),
    two_rounds       = list(new = c(1.5, 1.75), old = c(1.0, 1.125)),
    six_rounds       = list(new = c(181, 179, 188, 175, 183, 180), old = c(148, 151, 144, 150, 149, 146)),
    skewed           = list(new = rlnorm(25, 0.05, 0.5), old = rlnorm(25, 0, 0.5)),
    tiny_p           = list(new = rnorm(30, 126, 1), old = rnorm(30, 100, 1)),
    ties             = list(new = c(10, 11, 12, 13, 14, 15, 16, 17), old = c(9, 10, 13, 12, 16, 13, 18, 15)),
    zeros_and_ties   = list(new = c(5, 5, 6, 7, 8, 8, 9), old = c(5, 4, 7, 5, 8, 7, 6)),
    forty_nine       = list(new = rnorm(49, 1.00, 0.1), old = rnorm(49, 0.97, 0.1)),
    fifty            = list(new = rnorm(50, 1.00, 0.1), old = rnorm(50, 0.97, 0.1)),
    small_numbers    = list(new = rnorm(10, 3e-9, 1e-10), old = rnorm(10, 3.1e-9, 1e-10)),
    large_numbers    = list(new = rnorm(10, 3e9, 1e8), old = rnorm(10, 3.1e9, 1e8))
)

number <- function(x) if (is.na(x)) "NAN" else sprintf("%.17g", x)
array <- function(x) paste0("{", paste(vapply(x, number, ""), collapse = ", "), "}")

# The columns of Node's benchmark/compare.R (nodejs/node), in %.
accuracy <- function(level, test, old) diff(test(level)$conf.int) / 2 / mean(old) * 100

cat("/* SPDX-License-Identifier: MIT */\n")
cat("/* Made by tests/r/statistics.R; not to be edited. Compared by tests/unit/statistics.c and `make check-r`. */\n")
cat("#ifndef PINPOOL_TESTS_R_STATISTICS_VALUES_H\n#define PINPOOL_TESTS_R_STATISTICS_VALUES_H\n\n")
cat("#include <math.h>\n\n")
cat("static const struct r_case {\n    const char *name;\n    int count;\n    double arm[50], baseline[50];\n")
cat("    double welch_t, welch_df, welch_p, improvement, accuracy95, accuracy99, accuracy999;\n")
cat("    double wilcoxon_v, wilcoxon_p;\n    double median, quantile10, quantile99, sd;\n} r_cases[] = {\n")

for (name in names(cases)) {
    new <- cases[[name]]$new
    old <- cases[[name]]$old
    welch <- function(level = 0.95) t.test(new, old, conf.level = level)
    # When the exact p is meant is said here: later versions of R may choose otherwise by themselves.
    difference <- abs(new - old)
    exact <- length(new) < 50 && all(difference > 0) && !anyDuplicated(difference)
    paired <- wilcox.test(new, old, paired = TRUE, exact = exact)
    cat(sprintf("    {\"%s\", %d,\n     %s,\n     %s,\n", name, length(new), array(new), array(old)))
    cat("    ", paste(vapply(c(
        welch()$statistic, welch()$parameter, welch()$p.value, (mean(new) - mean(old)) / mean(old) * 100,
        accuracy(0.95, welch, old), accuracy(0.99, welch, old), accuracy(0.999, welch, old)), number, ""),
        collapse = ", "), ",\n", sep = "")
    cat("    ", number(paired$statistic), ", ", number(paired$p.value), ",\n", sep = "")
    cat("    ", paste(vapply(c(median(new), quantile(new, 0.1), quantile(new, 0.99), sd(new)), number, ""),
        collapse = ", "), "},\n", sep = "")
}
cat("};\n\n")

p <- list(c(0.01, 0.02, 0.03, 0.04, 0.05), c(0.04, 0.001, 0.5, 0.04, 0.9, 0.012), 0.03, c(NA, 0.01, NA, 0.04, 0.2))
cat("static const struct r_holm {\n    int count;\n    double p[6], adjusted[6];\n} r_holms[] = {\n")
for (each in p)
    cat(sprintf("    {%d, %s, %s},\n", length(each), array(each), array(p.adjust(each, "holm"))))
cat("};\n\n#endif\n")
