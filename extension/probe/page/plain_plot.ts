/** Charts of the library as this page may show them. */

/** Plot brings a style element, which the page's policy refuses; the same rules are in the page's own style. */
export function withoutStyle(chart: SVGSVGElement | HTMLElement): SVGSVGElement | HTMLElement {
  chart.querySelector("style")?.remove();
  chart.setAttribute("role", "img");
  return chart;
}
