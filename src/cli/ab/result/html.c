/* SPDX-License-Identifier: MIT */
/*
 * html: DIR/report.html, the tables and the plots in one file that can be sent to somebody. The plots are
 * in it as data; beside it they stand alone as SVG and PNG.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ab/result/plots.h"
#include "cli/ab/result/report.h"
#include "cli/kit/files.h"
#include "cli/kit/page.h"
#include "cli/kit/util.h"

static const char style_sheet[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:76em;margin:2em auto;padding:0 "
    "1em;color:#1a1a1a;background:#fff}"
    "h1{font:600 1.4em ui-monospace,monospace;overflow-wrap:anywhere}h2{font-size:1.15em;margin-top:2em}"
    "table{border-collapse:collapse;font-size:.9em;display:block;overflow-x:auto}"
    "th,td{padding:.25em .7em;text-align:left;border-bottom:1px solid #ddd;white-space:nowrap}"
    "td:last-child{white-space:normal;overflow-wrap:anywhere}"
    ".number{text-align:right;font-variant-numeric:tabular-nums}"
    ".note{border-left:4px solid #c80;padding:.2em .8em;background:#fff6e5}"
    "figure{margin:1.5em 0}figure img{max-width:100%;height:auto}figcaption{font-size:.9em;color:#555}";

/* RFC 4648. */
static void put_base64(FILE *from, FILE *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char bytes[3];
    for (size_t got; (got = fread(bytes, 1, 3, from)) > 0;) {
        memset(bytes + got, 0, 3 - got);
        fputc(digits[bytes[0] >> 2], to);
        fputc(digits[(bytes[0] & 3) << 4 | bytes[1] >> 4], to);
        fputc(got > 1 ? digits[(bytes[1] & 15) << 2 | bytes[2] >> 6] : '=', to);
        fputc(got > 2 ? digits[bytes[2] & 63] : '=', to);
    }
}

static void put_picture(const char *directory, const struct picture *picture, FILE *to)
{
    CLEANUP_FREE char *path = must_format("%s/plots/%s.svg", directory, picture->name);
    CLEANUP_FCLOSE FILE *from = fopen(path, "re");
    if (!from)
        die("%s: %s", path, strerror(errno));
    fputs("<figure><img alt=\"", to);
    page_put_html(picture->caption, to);
    fputs("\" src=\"data:image/svg+xml;base64,", to);
    put_base64(from, to);
    fputs("\"><figcaption>", to);
    page_put_html(picture->caption, to);
    fputs("</figcaption></figure>\n", to);
}

void report_write_html(const struct ab_result *result)
{
    struct pictures pictures = plots_draw(result);
    CLEANUP_FREE char *command = report_command_line(&result->experiment->settings);
    CLEANUP_FREE char *printable = text_printable(command);
    struct result_file *file = files_open_result(result->experiment->out, "report.html");
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>pinpool ab: ", file->file);
    page_put_html(printable, file->file);
    fprintf(file->file, "</title><style>%s</style></head><body>\n", style_sheet);
    const struct page page = {PAGE_HTML, file->file};
    report_write_tables(result, &page);
    if (pictures.problem)
        page_note(&page, pictures.problem);
    if (pictures.count)
        page_heading(&page, "Plots");
    for (size_t i = 0; i < pictures.count; i++)
        put_picture(result->experiment->out, &pictures.items[i], file->file);
    fputs("</body></html>\n", file->file);
    files_close_result(file);
    if (pictures.problem)
        warn_user("%s", pictures.problem);
    pictures_free(&pictures);
}
