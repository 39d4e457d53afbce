/* SPDX-License-Identifier: MIT */
/* page: headings, paragraphs and tables on a terminal, in Markdown or in HTML. */
#ifndef PINPOOL_CLI_KIT_PAGE_H
#define PINPOOL_CLI_KIT_PAGE_H

#include <stdio.h>

#include "cli/kit/table.h"

enum page_style { PAGE_TEXT, PAGE_MARKDOWN, PAGE_HTML };

struct page {
    enum page_style style;
    FILE *to;
};

/* A title, the page's first line, shown as it is typed. */
void page_title(const struct page *page, const char *title);
void page_heading(const struct page *page, const char *text);
void page_paragraph(const struct page *page, const char *text);
void page_note(const struct page *page, const char *text);

/* Prints it and frees what it holds. */
void page_table(const struct page *page, struct table *table);

/* Text for HTML, & < > " written as entities. */
void page_put_html(const char *text, FILE *to);

#endif
