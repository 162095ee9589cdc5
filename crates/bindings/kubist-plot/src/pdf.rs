//! A plot as PDF: one page with vector lines, an image of the points, and embedded text.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use kubist_types::Cancel;
use kubist_types::shown::printable;
use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect as Area, Ref, Str, TextStr};

use crate::canvas::{PIECE, Rect};
use crate::colormap::Color;
use crate::error::Error;
use crate::scene::{Mark, Scene};
use crate::text::{FONT, Text, Typeface, shift};

/// Typographic points per pixel, as on the web.
const POINTS: f32 = 0.75;
const FONT_NAME: Name = Name(b"KUBIST+DejaVuSans");
/// The bounding box of all glyphs, in thousandths of an em.
const FONT_BOX: Area = Area { x1: -1021.0, y1: -463.0, x2: 1793.0, y2: 1232.0 };
const GLYPHS: SystemInfo = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };
const UNICODE: SystemInfo = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"UCS"), supplement: 0 };

/// Images follow with two objects each.
const CATALOG: i32 = 1;
const PAGES: i32 = 2;
const PAGE: i32 = 3;
const CONTENT: i32 = 4;
const INFO: i32 = 5;
const TYPE0: i32 = 6;
const CID_FONT: i32 = 7;
const DESCRIPTOR: i32 = 8;
const FONT_FILE: i32 = 9;
const TO_UNICODE: i32 = 10;
const IMAGES: i32 = 11;

pub(crate) fn document(scene: &Scene, title: &str, description: &str, cancel: &Cancel) -> Result<Vec<u8>, Error> {
    let mut pdf = Pdf::new();
    pdf.catalog(Ref::new(CATALOG)).pages(Ref::new(PAGES));
    pdf.pages(Ref::new(PAGES)).kids([Ref::new(PAGE)]).count(1);
    let page = Page::draw(scene, &mut pdf, cancel)?;
    let (width, height) = (scene.width as f32 * POINTS, scene.height as f32 * POINTS);
    let mut about = pdf.page(Ref::new(PAGE));
    about.media_box(Area::new(0.0, 0.0, width, height)).parent(Ref::new(PAGES)).contents(Ref::new(CONTENT));
    let mut resources = about.resources();
    resources.fonts().pair(Name(b"F"), Ref::new(TYPE0));
    let mut images = resources.x_objects();
    for image in 0..page.images {
        images.pair(Name(image_name(image).as_bytes()), Ref::new(IMAGES + 2 * image));
    }
    images.finish();
    resources.finish();
    about.finish();
    let drawing = deflated(&page.content.finish(), cancel)?;
    pdf.stream(Ref::new(CONTENT), &drawing).filter(Filter::FlateDecode);
    font(&mut pdf, &page.typeface, &page.glyphs, cancel)?;
    let mut info = pdf.document_info(Ref::new(INFO));
    info.creator(TextStr("Kubist")).title(TextStr(&printable(title))).subject(TextStr(&printable(description)));
    info.finish();
    Ok(pdf.finish())
}

fn deflated(bytes: &[u8], cancel: &Cancel) -> Result<Vec<u8>, Error> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    for piece in bytes.chunks(PIECE) {
        cancel.check()?;
        encoder.write_all(piece).map_err(Error::Io)?;
    }
    encoder.finish().map_err(Error::Io)
}

fn image_name(image: i32) -> String {
    format!("I{image}")
}

struct Page {
    content: Content,
    typeface: Typeface,
    glyphs: BTreeMap<u16, char>,
    images: i32,
}

impl Page {
    fn draw(scene: &Scene, pdf: &mut Pdf, cancel: &Cancel) -> Result<Page, Error> {
        let (content, typeface) = (Content::new(), Typeface::new());
        let mut page = Page { content, typeface, glyphs: BTreeMap::new(), images: 0 };
        let (width, height) = (scene.width as i64, scene.height as i64);
        // From here on lengths are pixels, and y grows down.
        page.content.transform([POINTS, 0.0, 0.0, -POINTS, 0.0, height as f32 * POINTS]);
        page.fill(Rect { x: 0, y: 0, width, height }, scene.background);
        for mark in &scene.marks {
            page.mark(mark, pdf, cancel)?;
        }
        Ok(page)
    }

    fn mark(&mut self, mark: &Mark, pdf: &mut Pdf, cancel: &Cancel) -> Result<(), Error> {
        match mark {
            Mark::Fill(rect, color) => self.fill(*rect, *color),
            Mark::Frame { around, thickness, color } => {
                let [red, green, blue] = shares(*color);
                // PDF strokes both sides of a path.
                let (x, y) = (around.x as f32 - *thickness as f32 / 2.0, around.y as f32 - *thickness as f32 / 2.0);
                let (width, height) = ((around.width + thickness) as f32, (around.height + thickness) as f32);
                self.content.set_stroke_rgb(red, green, blue).set_line_width(*thickness as f32);
                self.content.rect(x, y, width, height).stroke();
            }
            Mark::Line { points, thickness, color } => {
                let [red, green, blue] = shares(*color);
                let Some(((x, y), rest)) = points.split_first() else { return Ok(()) };
                self.content.set_stroke_rgb(red, green, blue).set_line_width(*thickness as f32).move_to(*x, *y);
                for (x, y) in rest {
                    self.content.line_to(*x, *y);
                }
                self.content.stroke();
            }
            Mark::Points(rect, layer) => {
                let rgba = layer.rgba(*rect, cancel)?;
                self.image(pdf, *rect, (rect.width, rect.height), &rgba, cancel)?;
            }
            Mark::Ramp(rect, colors) => {
                let rgba: Vec<u8> = colors.iter().flat_map(|[red, green, blue]| [*red, *green, *blue, 255]).collect();
                self.image(pdf, *rect, (1, colors.len() as i64), &rgba, cancel)?;
            }
            Mark::Arrow { base, up, color } => {
                let [red, green, blue] = shares(*color);
                let (foot, tip) = if *up { (base.bottom(), base.y) } else { (base.y, base.bottom()) };
                self.content.set_fill_rgb(red, green, blue).move_to(base.x as f32, foot as f32);
                self.content.line_to(base.right() as f32, foot as f32);
                self.content.line_to(base.x as f32 + base.width as f32 / 2.0, tip as f32).close_path().fill_nonzero();
            }
            Mark::Text(text) => self.words(text),
        }
        Ok(())
    }

    fn fill(&mut self, rect: Rect, color: Color) {
        let [red, green, blue] = shares(color);
        self.content.set_fill_rgb(red, green, blue);
        self.content.rect(rect.x as f32, rect.y as f32, rect.width as f32, rect.height as f32).fill_nonzero();
    }

    /// The opacity of the pixels is a separate image.
    fn image(
        &mut self,
        pdf: &mut Pdf,
        rect: Rect,
        size: (i64, i64),
        rgba: &[u8],
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let (width, height) = (size.0 as i32, size.1 as i32);
        let id = IMAGES + 2 * self.images;
        let colors: Vec<u8> = rgba.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        let opacities: Vec<u8> = rgba.chunks_exact(4).map(|pixel| pixel[3]).collect();
        let colors = deflated(&colors, cancel)?;
        let mut image = pdf.image_xobject(Ref::new(id), &colors);
        image.filter(Filter::FlateDecode);
        image.width(width).height(height).bits_per_component(8).s_mask(Ref::new(id + 1));
        image.color_space().device_rgb();
        image.finish();
        let opacities = deflated(&opacities, cancel)?;
        let mut mask = pdf.image_xobject(Ref::new(id + 1), &opacities);
        mask.filter(Filter::FlateDecode);
        mask.width(width).height(height).bits_per_component(8);
        mask.color_space().device_gray();
        mask.finish();
        let (across, down) = (rect.width as f32, rect.height as f32);
        self.content.save_state().transform([across, 0.0, 0.0, -down, rect.x as f32, rect.bottom() as f32]);
        self.content.x_object(Name(image_name(self.images).as_bytes())).restore_state();
        self.images += 1;
        Ok(())
    }

    fn words(&mut self, text: &Text) {
        let (glyphs, width) = self.typeface.line(&text.text, text.size);
        let shift = shift(text.anchor, width);
        let (x, y) = text.at;
        let [red, green, blue] = shares(text.color);
        self.content.begin_text().set_font(Name(b"F"), text.size).set_fill_rgb(red, green, blue);
        // The page is flipped, so text must be too; vertical text is rotated.
        self.content.set_text_matrix(match text.up {
            false => [1.0, 0.0, 0.0, -1.0, x - shift, y],
            true => [0.0, -1.0, -1.0, 0.0, x, y + shift],
        });
        let shown = printable(&text.text);
        let mut line = self.content.show_positioned();
        let mut items = line.items();
        let mut pen = 0.0;
        for (glyph, character) in glyphs.iter().zip(shown.chars()) {
            // Kerning, in thousandths of an em to the left.
            let moved = (glyph.position.x - pen) / text.size * 1000.0;
            if moved.abs() > 0.1 {
                items.adjust(-moved);
            }
            items.show(Str(&glyph.id.0.to_be_bytes()));
            pen = glyph.position.x + self.typeface.advance(glyph.id) * text.size;
            self.glyphs.entry(glyph.id.0).or_insert(character);
        }
        items.finish();
        line.finish();
        self.content.end_text();
    }
}

/// Embeds the font with the data that readers need to show, search and copy text.
fn font(pdf: &mut Pdf, typeface: &Typeface, glyphs: &BTreeMap<u16, char>, cancel: &Cancel) -> Result<(), Error> {
    let mut type0 = pdf.type0_font(Ref::new(TYPE0));
    type0.base_font(FONT_NAME).encoding_predefined(Name(b"Identity-H"));
    type0.descendant_font(Ref::new(CID_FONT)).to_unicode(Ref::new(TO_UNICODE));
    type0.finish();
    let mut cid = pdf.cid_font(Ref::new(CID_FONT));
    cid.subtype(CidFontType::Type2).base_font(FONT_NAME).system_info(GLYPHS);
    cid.font_descriptor(Ref::new(DESCRIPTOR)).cid_to_gid_map_predefined(Name(b"Identity"));
    let mut widths = cid.widths();
    for glyph in glyphs.keys() {
        widths.consecutive(*glyph, [typeface.advance(ab_glyph::GlyphId(*glyph)) * 1000.0]);
    }
    widths.finish();
    cid.finish();
    let (ascent, descent) = typeface.reach();
    let mut descriptor = pdf.font_descriptor(Ref::new(DESCRIPTOR));
    descriptor.name(FONT_NAME).flags(FontFlags::SYMBOLIC).bbox(FONT_BOX).italic_angle(0.0);
    descriptor.ascent(ascent * 1000.0).descent(descent * 1000.0).cap_height(729.0).stem_v(80.0);
    descriptor.font_file2(Ref::new(FONT_FILE));
    descriptor.finish();
    let file = deflated(FONT, cancel)?;
    let mut stream = pdf.stream(Ref::new(FONT_FILE), &file);
    stream.filter(Filter::FlateDecode).pair(Name(b"Length1"), FONT.len() as i32);
    stream.finish();
    let mut characters = UnicodeCmap::new(Name(b"Kubist"), UNICODE);
    // Glyph 0 represents all characters that the font lacks.
    for (glyph, character) in glyphs.iter().filter(|(glyph, _)| **glyph != 0) {
        characters.pair(*glyph, *character);
    }
    let characters = characters.finish();
    pdf.cmap(Ref::new(TO_UNICODE), &characters);
    Ok(())
}

fn shares(color: Color) -> [f32; 3] {
    color.map(|channel| f32::from(channel) / 255.0)
}
