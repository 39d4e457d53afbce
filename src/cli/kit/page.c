/* SPDX-License-Identifier: MIT */
/* page: see page.h. */
#include "cli/kit/page.h"

#include <stdlib.h>
#include <string.h>

void page_put_html(const char *text, FILE *to)
{
    for (; *text; text++) {
        if (*text == '&')
            fputs("&amp;", to);
        else if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '>')
            fputs("&gt;", to);
        else if (*text == '"')
            fputs("&quot;", to);
        else
            fputc(*text, to);
    }
}

/* What would be read as Markdown in a cell or a paragraph. */
static void put_markdown(const char *text, FILE *to)
{
    for (; *text; text++) {
        if (strchr("|*`<[\\", *text))
            fputc('\\', to);
        fputc(*text, to);
    }
}

static void put_html_element(const char *name, const char *text, FILE *to)
{
    fprintf(to, "<%s>", name);
    page_put_html(text, to);
    fprintf(to, "</%.*s>", (int)strcspn(name, " "), name);
}

void page_title(const struct page *page, const char *title)
{
    CLEANUP_FREE char *printable = text_printable(title);
    if (page->style == PAGE_TEXT) {
        fprintf(page->to, "%s\n", printable);
    } else if (page->style == PAGE_MARKDOWN) {
        fputs("# ", page->to);
        put_markdown(printable, page->to);
        fputc('\n', page->to);
    } else {
        put_html_element("h1", printable, page->to);
    }
}

void page_heading(const struct page *page, const char *text)
{
    CLEANUP_FREE char *printable = text_printable(text);
    if (page->style == PAGE_HTML) {
        put_html_element("h2", printable, page->to);
    } else if (page->style == PAGE_MARKDOWN) {
        fputs("\n## ", page->to);
        put_markdown(printable, page->to);
        fputs("\n\n", page->to);
    } else {
        fprintf(page->to, "\n%s\n", printable);
    }
}

void page_paragraph(const struct page *page, const char *text)
{
    CLEANUP_FREE char *printable = text_printable(text);
    if (page->style == PAGE_HTML) {
        put_html_element("p", printable, page->to);
    } else if (page->style == PAGE_MARKDOWN) {
        fputc('\n', page->to);
        put_markdown(printable, page->to);
        fputc('\n', page->to);
    } else {
        fprintf(page->to, "%s\n", printable);
    }
}

void page_note(const struct page *page, const char *text)
{
    CLEANUP_FREE char *printable = text_printable(text);
    if (page->style == PAGE_HTML) {
        put_html_element("p class=\"note\"", printable, page->to);
    } else if (page->style == PAGE_MARKDOWN) {
        fputs("\n**Note.** ", page->to);
        put_markdown(printable, page->to);
        fputc('\n', page->to);
    } else {
        fprintf(page->to, "Note: %s\n", printable);
    }
}

/* ---- Tables ---- */

static void put_markdown_cell(const char *text, FILE *to)
{
    fputc(' ', to);
    put_markdown(text, to);
    fputs(" |", to);
}

static void put_markdown_table(const struct table *table, FILE *to)
{
    if (table->column_count == 0)
        return;
    fputc('|', to);
    for (size_t i = 0; i < table->column_count; i++)
        put_markdown_cell(table->columns[i].heading, to);
    fputs("\n|", to);
    for (size_t i = 0; i < table->column_count; i++)
        fputs(table->columns[i].side == TABLE_RIGHT ? "---:|" : "---|", to);
    for (size_t i = 0; i < table->cell_count; i++) {
        if (i % table->column_count == 0)
            fputs("\n|", to);
        put_markdown_cell(table->cells[i], to);
    }
    fputc('\n', to);
}

static void put_html_table(const struct table *table, FILE *to)
{
    if (table->column_count == 0)
        return;
    fputs("<table><thead><tr>", to);
    for (size_t i = 0; i < table->column_count; i++)
        put_html_element(table->columns[i].side == TABLE_RIGHT ? "th class=\"number\"" : "th",
                         table->columns[i].heading, to);
    fputs("</tr></thead><tbody>", to);
    for (size_t i = 0; i < table->cell_count; i++) {
        const size_t column = i % table->column_count;
        if (column == 0)
            fputs("\n<tr>", to);
        put_html_element(table->columns[column].side == TABLE_RIGHT ? "td class=\"number\"" : "td",
                         table->cells[i], to);
        if (column + 1 == table->column_count)
            fputs("</tr>", to);
    }
    fputs("\n</tbody></table>\n", to);
}

void page_table(const struct page *page, struct table *table)
{
    if (page->style == PAGE_TEXT) {
        table_print(table, page->to);
        return;
    }
    if (page->style == PAGE_MARKDOWN)
        put_markdown_table(table, page->to);
    else
        put_html_table(table, page->to);
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->cell_count = 0;
}
